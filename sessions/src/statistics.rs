//! How sure a rate of corrupt sessions is, given that rows of one bad step fail together.
//!
//! One bad step damages many rows of its batch at once, so sessions are not independent draws, and an
//! interval that takes them for such is far too narrow. The interval here is Wilson's score
//! interval at an *effective* number of sessions:
//!
//! - Corrupt sessions that the same step damaged form a cluster ([`Clusters`]); let the sizes be
//!   m₁, m₂, ….
//! - The design effect is Kish's 1 + (m̄ − 1)ρ (*Survey Sampling*, 1965, section 5.4) with ρ = 1, as the
//!   members of a cluster fail together by construction, and m̄ the size-weighted mean Σm²/Σm. That
//!   makes it Σm²/Σm, which is also the variance of the number of corrupt sessions over its mean when bad steps
//!   come independently (compound Poisson).
//! - n sessions are worth n / design effect of them, but at least one. Wilson's interval (1927) takes that number
//!   together with the observed fraction, as Korn and Graubard (*Survey Methodology* 24, 1998)
//!   do for survey proportions.
//! - With no corrupt session there is nothing to estimate a design effect from; it is taken as 1,
//!   and the upper end, z² / (n + z²), is optimistic if bad steps are rare and wide.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Standard normal quantile of a two-sided 95% interval.
const Z: f64 = 1.959_963_984_540_054;

/// Clusters that can still grow; a step older than so many later ones has damaged all it will.
const OPEN_CLUSTERS: usize = 4_096;

/// A fraction with its 95% interval: `0 <= low <= value <= high <= 1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// The fraction seen; 0 when nothing was seen.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Rate {
    /// Wilson's score interval for a fraction `value` (0 to 1) of `trials` independent trials,
    /// which need not be a whole number.
    ///
    /// ```
    /// let rate = coalmine_sessions::Rate::wilson(0.0, 80.0);
    /// assert_eq!((rate.low * 1e4).round(), 0.0);
    /// assert_eq!((rate.high * 1e4).round(), 458.0);
    /// ```
    pub fn wilson(value: f64, trials: f64) -> Self {
        if trials <= 0.0 {
            return Self { value: 0.0, low: 0.0, high: 1.0 };
        }
        let shrink = 1.0 / (1.0 + Z * Z / trials);
        let centre = (value + Z * Z / (2.0 * trials)) * shrink;
        let variance = value * (1.0 - value) / trials + Z * Z / (4.0 * trials * trials);
        let half = Z * variance.sqrt() * shrink;
        // The bounds hold exactly in real numbers; rounding may miss them by a bit.
        Self { value, low: (centre - half).clamp(0.0, value), high: (centre + half).clamp(value, 1.0) }
    }
}

/// Corrupt sessions, linked when the same step damaged them. Memory is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    /// Sizes of the clusters that can still grow, by step.
    open: BTreeMap<u64, u64>,
    members: u64,
    squares: u64,
}

impl Clusters {
    /// Adds a corrupt session damaged by `step`, or by nothing known.
    pub fn add(&mut self, step: Option<u64>) {
        self.members += 1;
        let Some(step) = step else {
            self.squares += 1;
            return;
        };
        let size = self.open.entry(step).or_default();
        // A forged keyframe can hold clusters so large that their squares have no room.
        self.squares = self.squares.saturating_add(2 * *size + 1);
        *size += 1;
        if self.open.len() > OPEN_CLUSTERS {
            self.open.pop_first();
        }
    }

    /// Whether no count exceeds `limit`, nor the number of clusters what [`Clusters::add`] keeps.
    pub(crate) fn counts_up_to(&self, limit: u64) -> bool {
        let mut counts = self.open.values().chain([&self.members, &self.squares]);
        self.open.len() <= OPEN_CLUSTERS && counts.all(|&count| count <= limit)
    }

    /// Corrupt sessions.
    pub fn members(&self) -> u64 {
        self.members
    }

    /// The size-weighted mean size of a cluster; 1 when there is none.
    pub fn design_effect(&self) -> f64 {
        design_effect(self.members, self.squares)
    }

    /// The rate of corrupt sessions among `sessions`.
    ///
    /// ```
    /// use coalmine_sessions::Clusters;
    ///
    /// let mut apart = Clusters::default();
    /// let mut together = Clusters::default();
    /// for session in 0..12 {
    ///     apart.add(Some(session));
    ///     together.add(Some(0));
    /// }
    /// assert_eq!(apart.rate(80).value, together.rate(80).value);
    /// assert!(apart.rate(80).high < together.rate(80).high);
    /// ```
    pub fn rate(&self, sessions: u64) -> Rate {
        rate(sessions, self.members, self.design_effect())
    }
}

/// One run's corrupt sessions among all of its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Sessions of the run.
    pub sessions: u64,
    /// The corrupt ones.
    pub clusters: Clusters,
}

/// The rate over several runs of the same configuration.
///
/// Clusters never reach across runs. Runs can differ by more than their clusters explain (another seed,
/// another phase of the load), so the design effect is the larger of the clusters' and of
/// Pearson's X² / (runs − 1) between the runs (McCullagh and Nelder, *Generalized Linear Models*, 1989, section 4.5).
pub fn pooled_rate(runs: &[RunOutcome]) -> Rate {
    let sessions = runs.iter().map(|run| run.sessions).sum();
    let members = runs.iter().map(|run| run.clusters.members).sum();
    let squares = runs.iter().map(|run| run.clusters.squares).sum();
    rate(sessions, members, design_effect(members, squares).max(dispersion(runs, sessions, members)))
}

fn dispersion(runs: &[RunOutcome], sessions: u64, members: u64) -> f64 {
    let mean = members as f64 / sessions as f64;
    let runs = runs.iter().filter(|run| run.sessions > 0);
    let degrees = runs.clone().count() as f64 - 1.0;
    if degrees < 1.0 || !(0.0 < mean && mean < 1.0) {
        return 1.0;
    }
    let term = |run: &RunOutcome| {
        let count = run.sessions as f64;
        (run.clusters.members as f64 - count * mean).powi(2) / (count * mean * (1.0 - mean))
    };
    runs.map(term).sum::<f64>() / degrees
}

fn design_effect(members: u64, squares: u64) -> f64 {
    if members == 0 { 1.0 } else { squares as f64 / members as f64 }
}

fn rate(sessions: u64, members: u64, design_effect: f64) -> Rate {
    if sessions == 0 {
        return Rate::wilson(0.0, 0.0);
    }
    let value = members.min(sessions) as f64 / sessions as f64;
    Rate::wilson(value, (sessions as f64 / design_effect).max(1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clusters(sizes: &[u64]) -> Clusters {
        let mut clusters = Clusters::default();
        for (step, size) in (0..).zip(sizes) {
            (0..*size).for_each(|_| clusters.add(Some(step)));
        }
        clusters
    }

    fn run(sessions: u64, sizes: &[u64]) -> RunOutcome {
        RunOutcome { sessions, clusters: clusters(sizes) }
    }

    fn rounded(rate: Rate) -> (f64, f64) {
        ((rate.low * 1e4).round() / 1e4, (rate.high * 1e4).round() / 1e4)
    }

    #[test]
    fn clusters_as_large_as_a_forger_may_claim_can_be_added_to() {
        let limit = 1_u64 << 48;
        let forged = serde_json::json!({ "open": { "5": limit }, "members": limit, "squares": limit });
        let mut clusters: Clusters = serde_json::from_value(forged).unwrap();
        assert!(clusters.counts_up_to(limit));
        (0..1 << 16).for_each(|_| clusters.add(Some(5)));
        assert!(clusters.rate(limit).high <= 1.0);
    }

    #[test]
    fn wilson_gives_the_published_values() {
        assert_eq!(rounded(Rate::wilson(0.0, 10.0)), (0.0, 0.2775));
        assert_eq!(rounded(Rate::wilson(0.5, 10.0)), (0.2366, 0.7634));
        assert_eq!(rounded(Rate::wilson(0.1, 100.0)), (0.0552, 0.1744));
        assert_eq!(rounded(Rate::wilson(1.0, 10.0)), (0.7225, 1.0));
    }

    #[test]
    fn nothing_seen_says_nothing() {
        assert_eq!(Clusters::default().rate(0), Rate { value: 0.0, low: 0.0, high: 1.0 });
        assert_eq!(pooled_rate(&[]), Clusters::default().rate(0));
    }

    #[test]
    fn the_design_effect_is_the_weighted_mean_size() {
        assert_eq!(Clusters::default().design_effect(), 1.0);
        assert_eq!(clusters(&[1, 1, 1]).design_effect(), 1.0);
        assert_eq!(clusters(&[6, 2]).design_effect(), 5.0);
        let mut unknown = clusters(&[]);
        (0..4).for_each(|_| unknown.add(None));
        assert_eq!(unknown.design_effect(), 1.0);
    }

    #[test]
    fn a_cluster_of_six_and_two_of_eighty_is_worth_sixteen_sessions() {
        assert_eq!(clusters(&[6, 2]).rate(80), Rate::wilson(0.1, 16.0));
    }

    #[test]
    fn memory_is_bounded() {
        let mut clusters = Clusters::default();
        (0..3 * OPEN_CLUSTERS as u64).for_each(|step| clusters.add(Some(step)));
        assert_eq!(clusters.open.len(), OPEN_CLUSTERS);
        assert_eq!(clusters.members(), 3 * OPEN_CLUSTERS as u64);
    }

    #[test]
    fn like_runs_pool_to_their_sum_and_unlike_runs_to_something_wider() {
        let like = pooled_rate(&[run(80, &[1; 12]), run(80, &[1; 12])]);
        assert_eq!(like, Rate::wilson(0.15, 160.0));
        let unlike = pooled_rate(&[run(80, &[1; 24]), run(80, &[])]);
        assert!(unlike.low < like.low && unlike.high > like.high);
    }

    proptest! {
        #[test]
        fn a_rate_lies_in_its_interval(
            runs in proptest::collection::vec((0_u64..200, proptest::collection::vec(1_u64..30, 0..8)), 0..5),
        ) {
            let runs: Vec<_> = runs.iter().map(|(sessions, sizes)| run(*sessions, sizes)).collect();
            let rates = runs.iter().map(|run| run.clusters.rate(run.sessions)).chain([pooled_rate(&runs)]);
            for rate in rates {
                prop_assert!(0.0 <= rate.low && rate.low <= rate.value, "{:?}", rate);
                prop_assert!(rate.value <= rate.high && rate.high <= 1.0, "{:?}", rate);
            }
        }

        #[test]
        fn joining_clusters_never_narrows(sizes in proptest::collection::vec(1_u64..10, 2..6), extra in 0_u64..100) {
            let events: u64 = sizes.iter().sum();
            let apart = clusters(&sizes).rate(events + extra);
            let joined = clusters(&[&[sizes[0] + sizes[1]], &sizes[2..]].concat()).rate(events + extra);
            prop_assert!(joined.low <= apart.low + 1e-12 && apart.high <= joined.high + 1e-12);
        }

        #[test]
        fn more_trials_never_widen(value in 0.0..=1.0, trials in 1.0..1e4, more in 0.0..1e4) {
            let (few, many) = (Rate::wilson(value, trials), Rate::wilson(value, trials + more));
            prop_assert!(few.low <= many.low + 1e-12 && many.high <= few.high + 1e-12);
        }

        #[test]
        fn a_larger_fraction_never_lowers_an_end(value in 0.0..=1.0, other in 0.0..=1.0, trials in 1.0..1e4) {
            let (less, more) = (Rate::wilson(f64::min(value, other), trials), Rate::wilson(f64::max(value, other), trials));
            prop_assert!(less.low <= more.low + 1e-12 && less.high <= more.high + 1e-12);
        }
    }
}
