//! The vector unit in use.

use pulp::Arch;

/// The instructions that kernels are compiled for and that run here.
#[inline]
pub(crate) fn arch() -> Arch {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    {
        let cpu = nextpair_core::cpu();
        if !cpu.avx2 {
            return Arch::Scalar;
        }
        if !cpu.avx512 {
            return pulp::x86::V3::try_new().map_or(Arch::Scalar, Arch::V3);
        }
    }
    Arch::new()
}

/// The vector unit of this CPU, by the name of its instruction set. Scores of attention models and
/// trained weights have the same bits wherever it is the same, and may differ in their last digits
/// elsewhere.
pub fn vector_unit() -> &'static str {
    match arch() {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V4(_) => "x86-64-v4",
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Arch::V3(_) => "x86-64-v3",
        #[cfg(target_arch = "aarch64")]
        Arch::Neon(_) => "neon",
        _ => "scalar",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::tile_size;

    #[test]
    fn the_unit_is_the_one_that_products_use() {
        let lanes = tile_size().1 / crate::packed::VECTORS;
        let expected: &[&str] = match lanes {
            16 => &["x86-64-v4"],
            8 => &["x86-64-v3"],
            4 => &["neon"],
            _ => &["scalar"],
        };
        assert!(expected.contains(&vector_unit()), "{} with {lanes} lanes", vector_unit());
    }
}
