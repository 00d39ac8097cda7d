//! Which keys are asked for how often.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_distr::Distribution as _;
use rand_distr::{Uniform, Zipf};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::permutation::{Permutation, mix};

/// The largest exponent taken: beyond it more than 99.9 % of the draws hit one key, and other ranks
/// cannot be told from none.
pub const MAX_THETA: f64 = 10.0;

/// A request distribution, as on the command line: `uniform` or `zipf:THETA`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every key equally likely.
    Uniform,
    /// The key of rank `r` (from 1) has the probability `r^-theta / H(n, theta)`. Exactly so: see
    /// [`KeyChooser`].
    Zipf(
        /// The exponent theta, 0 to [`MAX_THETA`].
        f64,
    ),
}

/// Why a text names no distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// There is none of that name.
    #[error(
        "no distribution is called {0:?}; there are uniform and zipf:THETA, for example zipf:0.99"
    )]
    Unknown(String),
    /// The exponent is no number or out of range.
    #[error("theta of {0:?} must be a number from 0 to {MAX_THETA}, for example zipf:0.99")]
    Theta(String),
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "uniform" => Ok(Self::Uniform),
            None if text == "zipf" => Err(DistributionError::Theta(text.to_owned())),
            Some(("zipf", theta)) => match theta.parse::<f64>() {
                Ok(theta) if (0.0..=MAX_THETA).contains(&theta) => Ok(Self::Zipf(theta)),
                _ => Err(DistributionError::Theta(text.to_owned())),
            },
            _ => Err(DistributionError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(theta) => write!(f, "zipf:{theta}"),
        }
    }
}

/// The random numbers of one client: a stream of its own for every (seed, client).
pub fn client_rng(seed: u64, client: u32) -> Xoshiro256PlusPlus {
    // `mix` is a bijection: two clients of one run never share a stream.
    Xoshiro256PlusPlus::seed_from_u64(mix(mix(seed) ^ u64::from(client)))
}

#[derive(Clone, Copy, Debug)]
enum Ranks {
    Uniform(Uniform<u64>),
    Zipf(Zipf<f64>),
}

/// Draws keys from `[0, keys)`.
///
/// Zipf ranks come from `rand_distr::Zipf`, whose frequencies fit the true probabilities (tests
/// below), and a [`Permutation`] puts them onto keys one to one.
#[derive(Clone, Copy, Debug)]
pub struct KeyChooser {
    keys: u64,
    ranks: Ranks,
    permutation: Permutation,
}

impl KeyChooser {
    /// Draws from `[0, keys)` as `distribution` says.
    ///
    /// # Panics
    /// When `keys` is 0 or above 2^53 (ranks are drawn as doubles), or the exponent out of range.
    pub fn new(distribution: Distribution, keys: u64) -> Self {
        assert!((1..=1 << 53).contains(&keys), "1 to 2^53 keys, not {keys}");
        let ranks = match distribution {
            Distribution::Uniform => {
                Ranks::Uniform(Uniform::new(0, keys).expect("the range is not empty"))
            }
            Distribution::Zipf(theta) => {
                assert!(
                    (0.0..=MAX_THETA).contains(&theta),
                    "theta is 0 to {MAX_THETA}, not {theta}"
                );
                Ranks::Zipf(
                    Zipf::new(keys as f64, stable(theta)).expect("both parameters are in range"),
                )
            }
        };
        Self {
            keys,
            ranks,
            permutation: Permutation::new(keys),
        }
    }

    /// The next key.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        match &self.ranks {
            Ranks::Uniform(uniform) => uniform.sample(rng),
            Ranks::Zipf(_) => self.permutation.apply(self.rank(rng) - 1),
        }
    }

    /// The key of `rank`, 1 being the hottest. Without meaning for a uniform distribution.
    ///
    /// # Panics
    /// In debug builds, when `rank` is not in `1..=keys`.
    pub fn key_of_rank(&self, rank: u64) -> u64 {
        self.permutation.apply(rank - 1)
    }

    /// A rank in `1..=keys`.
    fn rank<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        match &self.ranks {
            Ranks::Uniform(uniform) => uniform.sample(rng) + 1,
            Ranks::Zipf(zipf) => loop {
                let rank = zipf.sample(rng);
                // Rounding can bring keys + 1 (rand_distr issues 54 and 57). Drawn again, not
                // clamped: clamping would give the coldest key the share of two.
                if (1.0..=self.keys as f64).contains(&rank) {
                    return rank as u64;
                }
            },
        }
    }
}

/// Next to 1, but not at it, `rand_distr` divides rounding errors by `1 - s`. The exponents within
/// 1e-6 of 1 differ from 1 by less than 2e-5 in any probability up to 2^53 keys, the rounding
/// errors by more.
fn stable(theta: f64) -> f64 {
    if (theta - 1.0).abs() < 1e-6 {
        1.0
    } else {
        theta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sum of r^-s for r in lo..=hi`, smallest terms first.
    fn harmonic(lo: u64, hi: u64, s: f64) -> f64 {
        (lo..=hi).rev().map(|rank| (rank as f64).powf(-s)).sum()
    }

    /// Ranks 1 to 20 alone, then groups whose width doubles: (first, last) of each.
    fn groups(n: u64) -> Vec<(u64, u64)> {
        let mut groups: Vec<_> = (1..=n.min(20)).map(|rank| (rank, rank)).collect();
        let mut width = 20;
        let mut first = 21;
        while first <= n {
            let last = (first + width - 1).min(n);
            groups.push((first, last));
            first = last + 1;
            width *= 2;
        }
        groups
    }

    /// How many standard deviations chi-square of the drawn ranks lies above its mean.
    fn misfit(n: u64, s: f64, draws: u64, mut rank: impl FnMut() -> u64) -> f64 {
        let groups = groups(n);
        let mut counts = vec![0u64; groups.len()];
        for _ in 0..draws {
            let rank = rank();
            assert!((1..=n).contains(&rank), "rank {rank} of {n}");
            let group = groups.partition_point(|(_, last)| *last < rank);
            counts[group] += 1;
        }
        let total = harmonic(1, n, s);
        let (mut chi2, mut cells) = (0.0, 0);
        let (mut rest_expected, mut rest_count) = (0.0, 0.0);
        for ((first, last), count) in groups.iter().zip(counts) {
            let expected = draws as f64 * harmonic(*first, *last, s) / total;
            // Chi-square wants about five or more in a cell; smaller ones are taken together.
            if expected < 10.0 {
                rest_expected += expected;
                rest_count += count as f64;
            } else {
                chi2 += (count as f64 - expected).powi(2) / expected;
                cells += 1;
            }
        }
        if rest_expected >= 10.0 {
            chi2 += (rest_count - rest_expected).powi(2) / rest_expected;
            cells += 1;
        }
        let freedom = f64::from(cells - 1);
        if freedom == 0.0 {
            0.0
        } else {
            (chi2 - freedom) / (2.0 * freedom).sqrt()
        }
    }

    #[test]
    fn drawn_frequencies_are_the_true_probabilities() {
        for (n, s, draws) in [
            (1, 0.99, 1_000),
            (2, 0.99, 1_000_000),
            (100, 0.0, 1_000_000),
            (1_000, 0.5, 2_000_000),
            (1_000, 0.99, 4_000_000),
            (1_000, 1.0, 2_000_000),
            (1_000, 2.5, 1_000_000),
            (1_000_000, 0.99, 10_000_000),
            (10_000_000, 0.0, 1_000_000),
            (10_000_000, 0.99, 4_000_000),
            (10_000_000, 1.0, 4_000_000),
            (10_000_000, 1.2, 2_000_000),
        ] {
            let chooser = KeyChooser::new(Distribution::Zipf(s), n);
            let mut rng = client_rng(1, 0);
            let misfit = misfit(n, s, draws, || chooser.rank(&mut rng));
            assert!(
                misfit < 4.0,
                "n = {n}, s = {s}: {misfit:.1} standard deviations off"
            );
        }
    }

    /// The misfit would be seen: rank 2 drawn 1.84 % too often is what the crate `zipf` 7.0.2 does.
    #[test]
    fn the_bias_of_the_crate_zipf_would_be_seen() {
        let (n, s) = (1_000_000, 0.99);
        let chooser = KeyChooser::new(Distribution::Zipf(s), n);
        let excess = 0.0184 * 2f64.powf(-s) / harmonic(1, n, s);
        let mut rng = client_rng(1, 0);
        let misfit = misfit(n, s, 10_000_000, || {
            let rank = chooser.rank(&mut rng);
            let draw = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            if draw < excess { 2 } else { rank }
        });
        assert!(misfit > 6.0, "{misfit:.1}");
    }

    #[test]
    fn the_hottest_key_has_its_known_share() {
        // 5.54 % for 10 M keys at 0.99, from the definition.
        let share = 1.0 / harmonic(1, 10_000_000, 0.99);
        assert!((share - 0.0554).abs() < 5e-5, "{share}");
        let chooser = KeyChooser::new(Distribution::Zipf(0.99), 10_000_000);
        let hottest = chooser.key_of_rank(1);
        let mut rng = client_rng(3, 7);
        let draws = 1_000_000;
        let hits = (0..draws)
            .filter(|_| chooser.draw(&mut rng) == hottest)
            .count();
        let deviation =
            (hits as f64 - share * f64::from(draws)) / (share * f64::from(draws)).sqrt();
        assert!(deviation.abs() < 4.0, "{hits} hits");
    }

    #[test]
    fn uniform_draws_are_uniform_over_all_keys() {
        let chooser = KeyChooser::new(Distribution::Uniform, 1_000);
        let mut rng = client_rng(1, 0);
        let mut counts = vec![0f64; 1_000];
        for _ in 0..1_000_000 {
            counts[chooser.draw(&mut rng) as usize] += 1.0;
        }
        let chi2: f64 = counts
            .iter()
            .map(|count| (count - 1_000.0).powi(2) / 1_000.0)
            .sum();
        assert!((chi2 - 999.0).abs() < 4.0 * (2.0 * 999f64).sqrt(), "{chi2}");
    }

    #[test]
    fn exponents_next_to_one_are_stable() {
        for theta in [1.0 - 1e-9, 1.0 + 1e-12, 1.0 - 2e-6] {
            let chooser = KeyChooser::new(Distribution::Zipf(theta), 1_000_000);
            let mut rng = client_rng(1, 0);
            let misfit = misfit(1_000_000, theta, 1_000_000, || chooser.rank(&mut rng));
            assert!(misfit < 4.0, "{theta}: {misfit}");
        }
    }

    #[test]
    fn clients_and_seeds_have_streams_of_their_own() {
        let first = |seed, client| client_rng(seed, client).next_u64();
        assert_eq!(first(1, 0), first(1, 0));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            for client in 0..100 {
                assert!(seen.insert(first(seed, client)));
            }
        }
    }

    #[test]
    fn texts_are_read_and_written() {
        for text in ["uniform", "zipf:0.99", "zipf:0", "zipf:1.2"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        for bad in [
            "zipf:-0.1",
            "zipf:11",
            "zipf:nan",
            "zipf:x",
            "zipf",
            "zipf:",
        ] {
            let error = bad.parse::<Distribution>().unwrap_err();
            assert!(matches!(error, DistributionError::Theta(_)), "{error}");
        }
        let error = "normal".parse::<Distribution>().unwrap_err().to_string();
        assert!(
            error.contains("uniform") && error.contains("zipf:THETA"),
            "{error}"
        );
    }
}
