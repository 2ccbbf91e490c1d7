//! Convolutions of one picture, with bias, residual and limits in the same pass, and an activation.
//!
//! A [`Frame`] has the channels of a pixel side by side and zeros around the picture, so that no
//! convolution asks where the picture ends. What a [`Dense`] convolution reads for one output is
//! then a few long stretches of memory, and it is a product with packed weights whose left side
//! needs no copy. A [`Depthwise`] convolution works on vectors of channels.
//!
//! Every number is one chain of fused multiply-adds in the order of the kernel, from the bias on, on
//! every vector unit, so that its bits depend on nothing else.

mod activation;
mod dense;
mod depthwise;
mod finish;
mod frame;
mod geometry;

pub use activation::Activation;
pub use dense::Dense;
pub(crate) use dense::panels;
pub use depthwise::Depthwise;
pub use finish::Finish;
pub use frame::{Frame, Margin, Size};
pub use geometry::Geometry;

/// Outputs computed together: with the vectors of [`dense`] they fill the registers.
fn most_pixels<S: pulp::Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 4 }
}

/// Calls `$call` with the constant `$pixels` set to `$count`, from 1 to 8. Every count is compiled
/// separately, with its sums in registers.
macro_rules! with_pixels {
    ($count:expr, $pixels:ident => $call:expr) => {
        with_pixels!(@ $count, $pixels => $call, 1 2 3 4 5 6 7 8)
    };
    (@ $count:expr, $pixels:ident => $call:expr, $($number:literal)*) => {
        match $count {
            $($number => {
                const $pixels: usize = $number;
                $call
            })*
            count => unreachable!("{count} pixels together"),
        }
    };
}
pub(crate) use with_pixels;

#[cfg(test)]
mod tests;
