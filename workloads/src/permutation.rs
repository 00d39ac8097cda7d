//! [`Permutation`]: a bijection on `[0, n)` that scatters ranks over keys.

/// Rounds of the Feistel network. Four rounds of random functions are a pseudo-random permutation
/// (Luby and Rackoff, SIAM J. Comput. 1988); here it only has to scatter.
const ROUNDS: usize = 4;

/// The round keys: the first fractional hexadecimal digits of pi, as nobody chose them.
const ROUND_KEYS: [u64; ROUNDS] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
];

/// A fixed pseudo-random bijection on `[0, n)`.
///
/// Zipf ranks are drawn densely from the hottest down; without this the hot keys would be
/// neighbours on the same few pages. Hashing ranks onto keys, as YCSB does, lets ranks collide, so
/// that the distribution drawn is no longer the one asked for; a bijection cannot.
///
/// It does not depend on the run's seed: the same keys, hence the same pages and lock slots, are
/// hot in every run over the same number of keys, and runs that differ in their seed differ in
/// nothing else.
///
/// A generalised Feistel network over pairs of numbers below `ceil(sqrt(n))`, with cycle walking
/// (Black and Rogaway, CT-RSA 2002): what lands at or beyond `n` goes through again. At most `2
/// sqrt(n)` of the domain lies there, so walking is rare.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    side: u64,
}

impl Permutation {
    /// The permutation of `[0, n)`.
    ///
    /// # Panics
    /// When `n` is 0 or above 2^62.
    pub fn new(n: u64) -> Self {
        assert!((1..=1 << 62).contains(&n), "1 to 2^62 items, not {n}");
        let root = n.isqrt();
        Self {
            n,
            side: if root * root < n { root + 1 } else { root },
        }
    }

    /// Where `item` goes.
    ///
    /// # Panics
    /// In debug builds, when `item` is not below `n`.
    pub fn apply(&self, item: u64) -> u64 {
        debug_assert!(item < self.n);
        let mut at = item;
        loop {
            at = self.feistel(at);
            if at < self.n {
                return at;
            }
        }
    }

    fn feistel(&self, at: u64) -> u64 {
        let (mut left, mut right) = (at / self.side, at % self.side);
        for key in ROUND_KEYS {
            // The high half of a product maps 64 random bits onto [0, side) without a division.
            let hashed = (u128::from(mix(right ^ key)) * u128::from(self.side)) >> 64;
            let sum = left + hashed as u64;
            left = right;
            right = if sum >= self.side {
                sum - self.side
            } else {
                sum
            };
        }
        left * self.side + right
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that mixes all 64
/// bits.
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_permutation() {
        for n in (1..=300).chain([1023, 1024, 1025, 99_999, 1_000_003]) {
            let permutation = Permutation::new(n);
            let mut seen = vec![false; n as usize];
            for item in 0..n {
                let to = permutation.apply(item) as usize;
                assert!(!std::mem::replace(&mut seen[to], true), "{n}: {to} twice");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_domain_is_kept_and_no_two_items_meet(
            n in 1u64..=1 << 62,
            items in proptest::collection::btree_set(proptest::prelude::any::<u64>(), 1..100),
        ) {
            let permutation = Permutation::new(n);
            let items: std::collections::BTreeSet<u64> = items.into_iter().map(|item| item % n).collect();
            let images: std::collections::BTreeSet<u64> =
                items.iter().map(|item| permutation.apply(*item)).collect();
            proptest::prop_assert!(images.iter().all(|image| *image < n));
            proptest::prop_assert_eq!(images.len(), items.len());
        }
    }

    #[test]
    fn hot_ranks_are_scattered_evenly() {
        // 10,000 hottest ranks over 100 equal stretches of 10 M keys: chi-square with 99 degrees of
        // freedom, whose 99.9 % quantile is 148.
        let n = 10_000_000;
        let permutation = Permutation::new(n);
        let mut counts = [0f64; 100];
        for rank in 0..10_000 {
            counts[(permutation.apply(rank) / (n / 100)) as usize] += 1.0;
        }
        let chi2: f64 = counts
            .iter()
            .map(|count| (count - 100.0).powi(2) / 100.0)
            .sum();
        assert!(chi2 < 148.0, "{chi2}");
    }

    #[test]
    fn neighbouring_ranks_are_not_neighbouring_keys() {
        let permutation = Permutation::new(10_000_000);
        // Fewer than 57 apart would put them on one page.
        let close = (0..10_000u64)
            .filter(|rank| {
                permutation
                    .apply(*rank)
                    .abs_diff(permutation.apply(rank + 1))
                    < 57
            })
            .count();
        // By chance 0.11 pairs are expected.
        assert!(close <= 3, "{close}");
    }
}
