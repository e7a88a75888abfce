//! When sessions arrive and how long their tools run.

use super::random::Random;

/// Tokens of a right call.
pub const CALL_TOKENS: u32 = 17;
/// Steps over which the first sessions arrive: two calls' worth.
pub const ARRIVAL_STEPS: u32 = 2 * CALL_TOKENS;

/// Coprime to [`ARRIVAL_STEPS`], so that neighbours arrive far apart and any 34 sessions in a row at 34 different steps.
const STRIDE: u64 = 13;

/// Arrival and thinking times of sessions, a pure function of the seed.
///
/// All calls have the same length, so sessions that start together would stay in phase and a bad step would
/// hit the same place of every call. Arrivals are spread evenly and tools take a random time, so at any step the
/// sessions stand at all places of their calls.
///
/// ```
/// use coalmine_sessions::workload::Schedule;
///
/// let schedule = Schedule::new(7);
/// assert_ne!(schedule.arrival(0), schedule.arrival(1));
/// assert!((1..=17).contains(&schedule.think(0, 0)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    seed: u64,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Steps from the start (or from when its place became free) to a session's arrival, from 0 to 33.
    pub fn arrival(&self, session: u64) -> u32 {
        let steps = u64::from(ARRIVAL_STEPS);
        let start = u64::from(Random::keyed(self.seed, &[ARRIVAL]).below(ARRIVAL_STEPS));
        ((start + session % steps * STRIDE) % steps) as u32
    }

    /// Steps that the tool called in `turn` runs, from 1 to 17.
    pub fn think(&self, session: u64, turn: u32) -> u32 {
        Random::keyed(self.seed, &[THINK, session, u64::from(turn)]).between(1, CALL_TOKENS)
    }

    /// Seed of a session's [`super::Script`].
    pub fn script_seed(&self, session: u64) -> u64 {
        Random::keyed(self.seed, &[SCRIPT, session]).seed()
    }
}

const ARRIVAL: u64 = 1;
const THINK: u64 = 2;
const SCRIPT: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps at which each of 80 sessions of 6 turns decodes, with no engine in between.
    fn decoding(schedule: Schedule) -> Vec<Vec<u32>> {
        let session = |session| {
            let mut now = schedule.arrival(session);
            let mut steps = Vec::new();
            for turn in 0..6 {
                steps.extend(now..now + CALL_TOKENS);
                now += CALL_TOKENS + schedule.think(session, turn);
            }
            steps
        };
        (0..80).map(session).collect()
    }

    #[test]
    fn it_is_a_function_of_the_seed() {
        let times = |seed| {
            (0..9).map(move |session| (Schedule::new(seed).arrival(session), Schedule::new(seed).think(session, 2)))
        };
        assert!(times(1).eq(times(1)));
        assert!(times(1).ne(times(2)));
        assert_ne!(Schedule::new(1).script_seed(0), Schedule::new(1).script_seed(1));
        assert_ne!(Schedule::new(1).script_seed(0), Schedule::new(2).script_seed(0));
    }

    #[test]
    fn arrivals_are_spread_evenly() {
        let mut counts = [0; ARRIVAL_STEPS as usize];
        (0..80).for_each(|session| counts[Schedule::new(9).arrival(session) as usize] += 1);
        assert!(counts.iter().all(|count| (2..=3).contains(count)), "{counts:?}");
        assert!(Schedule::new(9).arrival(u64::MAX) < ARRIVAL_STEPS);
    }

    #[test]
    fn at_any_time_sessions_stand_at_all_places_of_their_calls() {
        for seed in 0..20 {
            let decoding = decoding(Schedule::new(seed));
            let last = decoding.iter().flatten().max().unwrap();
            assert!(*last < 34 + 6 * 34, "{last} steps");
            for now in (40..=100).step_by(10) {
                let mut places = [0; CALL_TOKENS as usize];
                for steps in &decoding {
                    if let Ok(at) = steps.binary_search(&now) {
                        places[at % CALL_TOKENS as usize] += 1;
                    }
                }
                assert!(places.iter().filter(|&&count| count > 0).count() >= 12, "{places:?}");
                assert!(places.iter().all(|&count| count <= 12), "{places:?}");
            }
        }
    }
}
