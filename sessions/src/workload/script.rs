//! What one session is told and what it should answer.

use super::random::Random;
use super::vocabulary::*;

/// Tokens back at which a fact is certainly outside the demo model's sliding window.
const OUT_OF_WINDOW: usize = 40;

/// A session's turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// In order.
    pub turns: Vec<Turn>,
}

/// One request and the call that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Tokens fed before the assistant speaks: facts or the tool's result, then the request. They follow
    /// on whatever the assistant said before, right or wrong.
    pub prompt: Vec<u32>,
    /// The call that the assistant should make, with the token that ends it.
    pub expected: Vec<u32>,
}

/// A key that the conversation has named with its value.
struct Fact {
    key: u32,
    value: u32,
    /// Position of the value in the conversation.
    at: usize,
}

struct Writer {
    random: Random,
    /// Keys not used yet.
    keys: Vec<u32>,
    facts: Vec<Fact>,
    /// Tokens before `prompt`, counting right calls.
    before: usize,
    prompt: Vec<u32>,
}

impl Script {
    /// The script of a seed. It is the `session` of the demo model's training task.
    pub fn new(seed: u64, turns: u32) -> Self {
        let mut random = Random::new(seed);
        let facts = random.between(30, 48);
        let mut keys: Vec<u32> = KEYS.collect();
        random.shuffle(&mut keys);
        let mut writer = Writer { random, keys, facts: Vec::new(), before: 0, prompt: Vec::new() };
        writer.write(&[BEGIN_OF_SENTENCE, TOOLS_WORD, COLON]);
        writer.prompt.extend(TOOLS);
        writer.write(&[SEMICOLON, STOCK, COLON]);
        (0..facts).for_each(|_| writer.fact());

        let mut next = None;
        let turns = (0..turns).map(|turn| {
            if turn > 0 {
                next = writer.result();
            }
            writer.request(next)
        });
        Self { turns: turns.collect() }
    }
}

impl Writer {
    fn write(&mut self, tokens: &[u32]) {
        self.prompt.extend_from_slice(tokens);
    }

    fn length(&self) -> usize {
        self.before + self.prompt.len()
    }

    /// States a new fact, as long as there are keys.
    fn fact(&mut self) {
        let Some(key) = self.keys.pop() else { return };
        let value = VALUES.start + self.random.below(VALUES.end - VALUES.start);
        self.write(&[ITEM, key, BIN, value, SEMICOLON]);
        self.facts.push(Fact { key, value, at: self.length() - 2 });
    }

    /// One of the facts outside the window; the oldest if there is none.
    fn old_fact(&mut self) -> (u32, u32) {
        let length = self.length();
        // Facts are in the order of their positions.
        let old = self.facts.partition_point(|fact| fact.at + OUT_OF_WINDOW < length).max(1);
        let fact = &self.facts[self.random.below(old as u32) as usize];
        (fact.key, fact.value)
    }

    /// The result of the call before, with new facts and, half of the time, the item to ask for next.
    fn result(&mut self) -> Option<(u32, u32)> {
        self.write(&[RESULT, OK, SEMICOLON]);
        for _ in 0..self.random.between(1, 3) {
            self.fact();
        }
        let next = (self.random.below(2) == 0).then(|| self.old_fact());
        if let Some((key, _)) = next {
            self.write(&[NEXT, key, SEMICOLON]);
        }
        self.write(&[END_RESULT]);
        next
    }

    /// The user's request and the call that answers it.
    fn request(&mut self, next: Option<(u32, u32)>) -> Turn {
        let (key, value) = next.unwrap_or_else(|| self.old_fact());
        let tool = TOOLS.start + self.random.below(TOOLS.end - TOOLS.start);
        self.write(&[USER]);
        match next {
            Some(_) => self.write(&[NOW, tool, NEXT, PLEASE]),
            None => self.write(&[tool, THE, ITEM, key, PLEASE]),
        }
        self.write(&[ASSISTANT]);
        let expected = call(tool, key, value);
        self.before += self.prompt.len() + expected.len();
        Turn { prompt: std::mem::take(&mut self.prompt), expected }
    }
}

fn call(tool: u32, key: u32, value: u32) -> Vec<u32> {
    vec![
        CALLS,
        INVOKE,
        tool,
        END_NAME,
        PARAMETER,
        ITEM,
        STRING,
        key,
        END_PARAMETER,
        PARAMETER,
        BIN,
        STRING,
        value,
        END_PARAMETER,
        END_INVOKE,
        END_CALLS,
        END_OF_SENTENCE,
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::super::{CALL_TOKENS, judge};
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_script_for_ever() {
        let text = Vocabulary::demo().text(&Script::new(1, 6).turns[1].prompt);
        assert_eq!(
            text.as_str(),
            "<tool_result>ok ; item heron-fork bin D07 ; item cedar-tile bin A04 ;</tool_result><User>fetch the item heron-coil please<Assistant>"
        );
        assert_eq!(Script::new(1, 6), Script::new(1, 6));
        assert_ne!(Script::new(1, 6), Script::new(2, 6));
    }

    #[test]
    fn about_half_of_the_following_requests_name_their_item_in_the_result() {
        let turns = (0..400).flat_map(|seed| Script::new(seed, 6).turns.split_off(1));
        let next = turns.filter(|turn| turn.prompt.contains(&NEXT)).count();
        assert!((900..1_100).contains(&next), "{next} of 2000");
    }

    #[test]
    fn keys_may_run_out() {
        assert_eq!(Script::new(5, 200).turns.len(), 200);
        assert_eq!(Script::new(5, 0).turns.len(), 0);
    }

    proptest! {
        #[test]
        fn a_script_is_short_known_to_the_model_and_answerable(seed in any::<u64>()) {
            let script = Script::new(seed, 6);
            let mut facts = HashMap::new();
            let mut conversation = Vec::new();
            for turn in &script.turns {
                conversation.extend_from_slice(&turn.prompt);
                for (at, window) in conversation.windows(5).enumerate() {
                    if let &[ITEM, key, BIN, value, SEMICOLON] = window {
                        facts.insert(key, (value, at + 3));
                    }
                }
                let (value, at) = facts[&turn.expected[7]];
                prop_assert_eq!(turn.expected[12], value);
                let asked_at = conversation.len() + 12;
                prop_assert!(asked_at - at > OUT_OF_WINDOW);
                prop_assert_eq!(turn.expected.len(), CALL_TOKENS as usize);
                prop_assert_eq!(judge(&turn.expected, &turn.expected), None);
                prop_assert_eq!(turn.prompt.last(), Some(&ASSISTANT));
                conversation.extend_from_slice(&turn.expected);
            }
            prop_assert!((30..=48 + 15).contains(&facts.len()));
            prop_assert!(conversation.len() < 520);
            prop_assert!(conversation.iter().all(|&token| (token as usize) < Vocabulary::demo().size()));
        }
    }
}
