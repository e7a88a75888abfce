//! Whether a call says what it should, from its text alone.

use super::vocabulary::*;
use crate::{Flag, FlagKind, Sanitized};

/// A call that has not ended after so many tokens is malformed; a right one has 17.
pub const MAX_CALL_TOKENS: usize = 24;

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of wrong.
    pub kind: FlagKind,
    /// What the call should have said.
    pub expected: Sanitized,
    /// What it said.
    pub found: Sanitized,
}

impl Finding {
    /// The finding as a flag of the turn that made the call, which ended at `step`.
    pub fn flag(self, turn: u32, step: u64) -> Flag {
        Flag { kind: self.kind, turn, step, expected: self.expected, found: self.found }
    }
}

/// Compares the tokens of a call with what it should say. As a client would, it knows only the text.
pub fn judge(expected: &[u32], found: &[u32]) -> Option<Finding> {
    if found == expected {
        return None;
    }
    let kind = match Call::parse(found) {
        Some(_) => FlagKind::WrongArgument,
        None => FlagKind::MalformedCall,
    };
    let vocabulary = Vocabulary::demo();
    Some(Finding { kind, expected: vocabulary.text(expected), found: vocabulary.text(found) })
}

/// A well-formed call: each part is one plain word or more.
#[derive(Debug, PartialEq)]
pub(super) struct Call<'tokens> {
    pub(super) tool: &'tokens [u32],
    pub(super) item: &'tokens [u32],
    pub(super) bin: &'tokens [u32],
}

impl<'tokens> Call<'tokens> {
    pub(super) fn parse(tokens: &'tokens [u32]) -> Option<Self> {
        if tokens.len() > MAX_CALL_TOKENS {
            return None;
        }
        let mut rest = tokens;
        expect(&mut rest, &[CALLS, INVOKE])?;
        let tool = words(&mut rest)?;
        expect(&mut rest, &[END_NAME, PARAMETER, ITEM, STRING])?;
        let item = words(&mut rest)?;
        expect(&mut rest, &[END_PARAMETER, PARAMETER, BIN, STRING])?;
        let bin = words(&mut rest)?;
        expect(&mut rest, &[END_PARAMETER, END_INVOKE, END_CALLS, END_OF_SENTENCE])?;
        rest.is_empty().then_some(Self { tool, item, bin })
    }
}

fn expect(rest: &mut &[u32], tokens: &[u32]) -> Option<()> {
    *rest = rest.strip_prefix(tokens)?;
    Some(())
}

fn words<'tokens>(rest: &mut &'tokens [u32]) -> Option<&'tokens [u32]> {
    let is_word = |token: &u32| (MARKUP.end..VALUES.end).contains(token);
    let count = rest.iter().take_while(|token| is_word(token)).count();
    let (words, after) = rest.split_at(count);
    *rest = after;
    (count > 0).then_some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Script;
    use super::*;

    fn expected() -> Vec<u32> {
        Script::new(3, 1).turns.remove(0).expected
    }

    fn kind(change: impl FnOnce(&mut Vec<u32>)) -> Option<FlagKind> {
        let mut found = expected();
        change(&mut found);
        judge(&expected(), &found).map(|finding| finding.kind)
    }

    /// Another token of the range that the token at `at` is from.
    fn other(tokens: &[u32], at: usize, range: std::ops::Range<u32>) -> u32 {
        range.start + (tokens[at] - range.start + 1) % (range.end - range.start)
    }

    #[test]
    fn a_right_call_is_right() {
        assert_eq!(kind(|_| {}), None);
    }

    #[test]
    fn another_tool_item_or_bin_is_a_wrong_argument() {
        for (at, range) in [(2, TOOLS), (7, KEYS), (12, VALUES)] {
            assert_eq!(kind(|call| call[at] = other(call, at, range)), Some(FlagKind::WrongArgument));
        }
        assert_eq!(kind(|call| call.insert(12, VALUES.start)), Some(FlagKind::WrongArgument));
    }

    #[test]
    fn a_call_whose_tags_are_not_in_order_is_malformed() {
        for at in 0..CALL {
            assert_eq!(
                kind(|call| call.drain(at..=at).for_each(drop)),
                Some(FlagKind::MalformedCall),
                "without token {at}"
            );
            assert_eq!(kind(|call| call.truncate(at)), Some(FlagKind::MalformedCall), "cut at {at}");
        }
        assert_eq!(kind(|call| call.swap(5, 10)), Some(FlagKind::MalformedCall), "parameters exchanged");
        assert_eq!(kind(|call| call[12] = END_PARAMETER), Some(FlagKind::MalformedCall));
        assert_eq!(kind(|call| call[12] = u32::MAX), Some(FlagKind::MalformedCall));
        assert_eq!(kind(|call| call.push(END_OF_SENTENCE)), Some(FlagKind::MalformedCall));
        assert_eq!(kind(|call| call.splice(12..12, [VALUES.start; 8]).for_each(drop)), Some(FlagKind::MalformedCall));
    }

    const CALL: usize = super::super::CALL_TOKENS as usize;

    #[test]
    fn a_finding_says_what_was_expected_and_found() {
        let mut found = expected();
        found[12] = other(&found, 12, VALUES);
        let finding = judge(&expected(), &found).unwrap();
        assert_ne!(finding.expected, finding.found);
        assert!(finding.found.contains(Vocabulary::demo().word(found[12]).unwrap()));
        let flag = finding.clone().flag(2, 30);
        assert_eq!((flag.turn, flag.step, flag.found), (2, 30, finding.found));
    }

    proptest! {
        #[test]
        fn any_tokens_are_judged(
            expected in proptest::collection::vec(any::<u32>(), 0..30),
            found in proptest::collection::vec(prop_oneof![0_u32..300, any::<u32>()], 0..40),
        ) {
            prop_assert_eq!(judge(&expected, &found).is_none(), expected == found);
        }

        #[test]
        fn a_damaged_call_is_judged(at in 0..CALL, token in 0_u32..300) {
            let right = expected()[at] == token;
            prop_assert_eq!(kind(|call| call[at] = token).is_none(), right);
        }
    }
}
