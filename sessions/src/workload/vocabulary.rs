//! The demo model's words.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::judge::Call;
use crate::Sanitized;

/// The token that ends what the assistant says.
pub const END_OF_SENTENCE: u32 = 1;

// The other tokens by what they are; a test checks them against the vocabulary.
pub(super) const BEGIN_OF_SENTENCE: u32 = 0;
pub(super) const USER: u32 = 4;
pub(super) const ASSISTANT: u32 = 5;
pub(super) const CALLS: u32 = 6;
pub(super) const END_CALLS: u32 = 7;
pub(super) const INVOKE: u32 = 8;
pub(super) const END_NAME: u32 = 9;
pub(super) const END_INVOKE: u32 = 10;
pub(super) const PARAMETER: u32 = 11;
pub(super) const STRING: u32 = 12;
pub(super) const END_PARAMETER: u32 = 13;
pub(super) const RESULT: u32 = 14;
pub(super) const END_RESULT: u32 = 15;
pub(super) const ITEM: u32 = 16;
pub(super) const BIN: u32 = 17;
pub(super) const SEMICOLON: u32 = 18;
pub(super) const TOOLS_WORD: u32 = 19;
pub(super) const COLON: u32 = 20;
pub(super) const OK: u32 = 21;
pub(super) const NEXT: u32 = 22;
pub(super) const PLEASE: u32 = 23;
pub(super) const THE: u32 = 24;
pub(super) const NOW: u32 = 26;
pub(super) const STOCK: u32 = 28;
/// Tags and other markup; everything after is a plain word.
pub(super) const MARKUP: Range<u32> = 0..16;
pub(super) const TOOLS: Range<u32> = 30..38;
pub(super) const KEYS: Range<u32> = 38..166;
pub(super) const VALUES: Range<u32> = 166..294;

/// The demo model's words and their token ids.
#[derive(Debug)]
pub struct Vocabulary {
    words: Vec<String>,
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    /// The demo model's vocabulary.
    pub fn demo() -> &'static Self {
        static DEMO: OnceLock<Vocabulary> = OnceLock::new();
        DEMO.get_or_init(|| {
            let words: Vec<String> = serde_json::from_str(include_str!("../../demo/vocab.json"))
                .expect("the file is part of the program, and a test reads it");
            let ids = words.iter().cloned().zip(0..).collect();
            Self { words, ids }
        })
    }

    /// Number of tokens.
    pub fn size(&self) -> usize {
        self.words.len()
    }

    /// The word of a token.
    pub fn word(&self, token: u32) -> Option<&str> {
        self.words.get(token as usize).map(String::as_str)
    }

    /// The token of a word.
    pub fn token(&self, word: &str) -> Option<u32> {
        self.ids.get(word).copied()
    }

    /// Tokens as a person reads them: a well-formed call as `fetch(item=amber-lamp, bin=A07)`, anything
    /// else as its words, with tags shortened and unknown tokens as `<?token>`.
    ///
    /// ```
    /// use coalmine_sessions::workload::{Script, Vocabulary};
    ///
    /// let vocabulary = Vocabulary::demo();
    /// let call = &Script::new(7, 1).turns[0].expected;
    /// let text = vocabulary.text(call);
    /// assert!(text.contains("(item=") && text.contains(", bin="), "{text}");
    /// assert!(vocabulary.text(&call[..3]).starts_with(r#"<tool_calls><invoke name=""#));
    /// ```
    pub fn text(&self, tokens: &[u32]) -> Sanitized {
        match Call::parse(tokens) {
            Some(call) => {
                let [tool, item, bin] = [call.tool, call.item, call.bin].map(|words| self.raw_text(words));
                Sanitized::new(&format!("{tool}(item={item}, bin={bin})"))
            }
            None => Sanitized::new(&self.raw_text(tokens)),
        }
    }

    fn raw_text(&self, tokens: &[u32]) -> String {
        let mut text = String::new();
        let mut after_word = false;
        for &token in tokens {
            let is_word = !MARKUP.contains(&token);
            if after_word && is_word {
                text.push(' ');
            }
            match self.word(token) {
                // The bars are wide and say nothing: every tag has them.
                Some(word) if !is_word => {
                    text.push_str(&word.replace("｜DSML｜", "").replace('｜', "").replace('▁', "_"))
                }
                Some(word) => text.push_str(word),
                None => text.push_str(&format!("<?{token}>")),
            }
            after_word = is_word;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_the_words_of_the_task_in_order() {
        let mut words: Vec<String> = [
            "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>",
            "<pad>",
            "<unk>",
            "<｜User｜>",
            "<｜Assistant｜>",
            "<｜DSML｜tool_calls>",
            "</｜DSML｜tool_calls>",
            "<｜DSML｜invoke name=\"",
            "\">",
            "</｜DSML｜invoke>",
            "<｜DSML｜parameter name=\"",
            "\" string=\"true\">",
            "</｜DSML｜parameter>",
            "<tool_result>",
            "</tool_result>",
            "item",
            "bin",
            ";",
            "tools",
            ":",
            "ok",
            "next",
            "please",
            "the",
            "from",
            "now",
            "done",
            "stock",
            ".",
            "fetch",
            "count",
            "inspect",
            "ship",
            "weigh",
            "label",
            "hold",
            "return",
        ]
        .map(str::to_owned)
        .into();
        let materials = "amber birch cedar delta ember flint grove heron iron jade karst lilac maple north onyx pearl";
        for material in materials.split(' ') {
            words.extend(
                "lamp gear rope bolt tile coil fork mast".split(' ').map(|thing| format!("{material}-{thing}")),
            );
        }
        for row in "ABCDEFGH".chars() {
            words.extend((1..=16).map(|number| format!("{row}{number:02}")));
        }
        assert_eq!(Vocabulary::demo().words, words);
    }

    #[test]
    fn the_constants_are_the_tokens_of_their_words() {
        let vocabulary = Vocabulary::demo();
        for (token, word) in [
            (BEGIN_OF_SENTENCE, "<｜begin▁of▁sentence｜>"),
            (END_OF_SENTENCE, "<｜end▁of▁sentence｜>"),
            (USER, "<｜User｜>"),
            (ASSISTANT, "<｜Assistant｜>"),
            (CALLS, "<｜DSML｜tool_calls>"),
            (END_CALLS, "</｜DSML｜tool_calls>"),
            (INVOKE, "<｜DSML｜invoke name=\""),
            (END_NAME, "\">"),
            (END_INVOKE, "</｜DSML｜invoke>"),
            (PARAMETER, "<｜DSML｜parameter name=\""),
            (STRING, "\" string=\"true\">"),
            (END_PARAMETER, "</｜DSML｜parameter>"),
            (RESULT, "<tool_result>"),
            (END_RESULT, "</tool_result>"),
            (ITEM, "item"),
            (BIN, "bin"),
            (SEMICOLON, ";"),
            (TOOLS_WORD, "tools"),
            (COLON, ":"),
            (OK, "ok"),
            (NEXT, "next"),
            (PLEASE, "please"),
            (THE, "the"),
            (NOW, "now"),
            (STOCK, "stock"),
            (TOOLS.start, "fetch"),
            (TOOLS.end - 1, "return"),
            (KEYS.start, "amber-lamp"),
            (KEYS.end - 1, "pearl-mast"),
            (VALUES.start, "A01"),
            (VALUES.end - 1, "H16"),
        ] {
            assert_eq!(vocabulary.word(token), Some(word));
            assert_eq!(vocabulary.token(word), Some(token));
        }
        assert_eq!(vocabulary.size(), VALUES.end as usize);
    }

    #[test]
    fn text_is_compact_and_shows_what_is_broken() {
        let vocabulary = Vocabulary::demo();
        let text = |tokens: &[u32]| vocabulary.text(tokens).to_string();
        assert_eq!(text(&[ITEM, KEYS.start, BIN, VALUES.start, SEMICOLON]), "item amber-lamp bin A01 ;");
        assert_eq!(
            text(&[CALLS, INVOKE, TOOLS.start, END_NAME, 9_999, END_OF_SENTENCE]),
            "<tool_calls><invoke name=\"fetch\"><?9999><end_of_sentence>"
        );
    }
}
