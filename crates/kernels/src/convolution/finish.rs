//! What becomes of a sum before it is written.

use pulp::Simd;

use super::{Activation, Frame};

/// The last steps of a convolution: another picture is added, the result is kept within limits, and
/// a function is applied.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// A picture of the same size, to be added.
    pub add: Option<&'a Frame>,
    /// Smaller numbers become this.
    pub low: f32,
    /// Larger numbers become this.
    pub high: f32,
    /// The function.
    pub activation: Option<Activation>,
}

impl Default for Finish<'_> {
    fn default() -> Self {
        Finish { add: None, low: f32::NEG_INFINITY, high: f32::INFINITY, activation: None }
    }
}

/// Where the outputs of one pixel are written, and where the numbers to be added lie.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target {
    pub(super) output: usize,
    pub(super) added: usize,
}

/// [`Finish`] for a vector unit, but for the activation, whose code is too long for a tile: it
/// follows block by block, or picture by picture.
#[derive(Clone, Copy)]
pub(super) struct Finisher<'a, S: Simd> {
    simd: S,
    add: Option<&'a [f32]>,
    low: S::f32s,
    high: S::f32s,
}

impl<'a, S: Simd> Finisher<'a, S> {
    #[inline(always)]
    pub(super) fn new(simd: S, finish: &Finish<'a>) -> Self {
        Finisher {
            simd,
            add: finish.add.map(Frame::numbers),
            low: simd.splat_f32s(finish.low),
            high: simd.splat_f32s(finish.high),
        }
    }

    /// Finishes and writes the first `count` sums of every pixel. `WHOLE` promises that these are
    /// whole vectors.
    ///
    /// Inside, nothing can fail and everything is by index: otherwise the sums would leave the
    /// registers before they are complete.
    ///
    /// # Panics
    /// If a target lies outside.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) fn write<const V: usize, const P: usize, const WHOLE: bool>(
        &self,
        mut sums: [[S::f32s; V]; P],
        targets: &[Target; P],
        count: usize,
        output: &mut [f32],
    ) {
        let simd = self.simd;
        let piece = |v: usize| {
            let start = v * S::F32_LANES;
            start..if WHOLE { start + S::F32_LANES } else { count.min(start + S::F32_LANES) }
        };
        for target in targets {
            let last = (V - 1) * S::F32_LANES;
            assert!(last <= count && target.output + piece(V - 1).end <= output.len());
        }
        if let Some(add) = self.add {
            for target in targets {
                assert!(target.added + piece(V - 1).end <= add.len());
            }
            for p in 0..P {
                for v in 0..V {
                    // SAFETY: the assertions above say so of the last piece, and the pieces before
                    // it lie lower.
                    let numbers =
                        unsafe { add.get_unchecked(targets[p].added..).get_unchecked(piece(v)) };
                    sums[p][v] = simd.add_f32s(sums[p][v], load::<S, WHOLE>(simd, numbers));
                }
            }
        }
        for p in 0..P {
            for v in 0..V {
                let mut sum = sums[p][v];
                // Comparisons, because minimum and maximum treat NaN otherwise on every unit: here
                // it stays.
                sum = simd.select_f32s(simd.less_than_f32s(sum, self.low), self.low, sum);
                sum = simd.select_f32s(simd.greater_than_f32s(sum, self.high), self.high, sum);
                // SAFETY: as above.
                let to = unsafe {
                    output.get_unchecked_mut(targets[p].output..).get_unchecked_mut(piece(v))
                };
                store::<S, WHOLE>(simd, sum, to);
            }
        }
    }
}

/// Loads a whole vector, or at most one with zeros after the last number.
#[inline(always)]
pub(super) fn load<S: Simd, const WHOLE: bool>(simd: S, from: &[f32]) -> S::f32s {
    match S::as_simd_f32s(from) {
        ([vector], []) => *vector,
        _ if WHOLE => simd.splat_f32s(0.0),
        _ => simd.partial_load_f32s(from),
    }
}

#[inline(always)]
fn store<S: Simd, const WHOLE: bool>(simd: S, sum: S::f32s, to: &mut [f32]) {
    match S::as_mut_simd_f32s(to) {
        ([to], []) => *to = sum,
        _ if WHOLE => (),
        _ => simd.partial_store_f32s(to, sum),
    }
}
