//! Functions compiled several times, and called for the widest vectors of the CPU.

/// Defines a function that runs `$body` compiled for the widest vectors of this CPU. Results do not
/// depend on the width: the compiler neither reorders nor fuses operations of numbers.
macro_rules! widest {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512($($arg: $type),*) $(-> $out)? {
                    plain($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) $(-> $out)? {
                    plain($($arg),*)
                }
                if nextpair_core::cpu().avx512 {
                    // SAFETY: the feature was just checked.
                    return unsafe { avx512($($arg),*) };
                }
                if nextpair_core::cpu().avx2 {
                    // SAFETY: the feature was just checked.
                    return unsafe { avx2($($arg),*) };
                }
            }
            plain($($arg),*)
        }
    };
}
pub(crate) use widest;

/// Joins the values of lanes, each half with the other: a few steps where one after the other would be
/// many. The number of lanes is a power of two.
#[inline(always)]
pub(crate) fn in_halves<T: Copy, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut width = N;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}
