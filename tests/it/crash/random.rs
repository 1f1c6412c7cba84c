//! Chance that can be played again.

/// A small generator (xorshift64*); good enough to choose moments and pages.
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(mixed).unwrap() % end
    }
    /// A generator of its own for somebody else.
    pub fn fork(&mut self) -> Self {
        Self::new(self.below(1 << 30) as u64)
    }
}
