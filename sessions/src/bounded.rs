//! Lists from outside: read no further than they are kept.

use std::{fmt, marker::PhantomData};

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// Reads a list, of which it keeps the first `MOST`: the rest is passed over and takes no memory.
pub(crate) fn at_most<'de, const MOST: usize, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    struct Bounded<const MOST: usize, T>(PhantomData<T>);
    impl<'de, const MOST: usize, T: Deserialize<'de>> Visitor<'de> for Bounded<MOST, T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut kept = Vec::new();
            while kept.len() < MOST
                && let Some(item) = list.next_element()?
            {
                kept.push(item);
            }
            if kept.len() == MOST {
                while list.next_element::<IgnoredAny>()?.is_some() {}
            }
            Ok(kept)
        }
    }
    deserializer.deserialize_seq(Bounded::<MOST, T>(PhantomData))
}

/// Keeps the first `most`, and no room for more.
pub(crate) fn keep<T>(list: &mut Vec<T>, most: usize) {
    if list.len() > most {
        list.truncate(most);
        list.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Two(#[serde(deserialize_with = "at_most::<2, _, _>")] Vec<u8>);

    #[test]
    fn what_is_not_kept_is_passed_over() {
        for (text, kept) in [("[]", &[][..]), ("[1]", &[1]), ("[1,2]", &[1, 2]), ("[1,2,3,{\"a\":[4]}]", &[1, 2])] {
            let Two(read) = serde_json::from_str(text).unwrap();
            assert_eq!(read, kept);
        }
        assert!(serde_json::from_str::<Two>("[1,2,3").is_err());
        assert!(serde_json::from_str::<Two>("[1,true]").is_err());
    }

    #[test]
    fn what_was_cut_off_frees_its_memory() {
        let mut list = vec![0_u8; 1 << 20];
        keep(&mut list, 10);
        assert_eq!((list.len(), list.capacity()), (10, 10));
    }
}
