//! The vector instructions of this CPU. Every fast path asks here whether it may run.
//!
//! The variable `NEXTPAIR_WITHOUT` switches some off, to test and to measure what other CPUs do:
//! `NEXTPAIR_WITHOUT=avx512,vnni`.

use std::sync::OnceLock;

/// The vector instructions that this CPU has and that are not switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// AVX2 and FMA (x86-64-v3).
    pub avx2: bool,
    /// AVX-512 with its byte, word and short forms (x86-64-v4).
    pub avx512: bool,
    /// Byte products of AVX-512.
    pub avx512_vnni: bool,
    /// Byte products of AVX2.
    pub avx_vnni: bool,
    /// Byte products of NEON: vectors.
    pub dotprod: bool,
    /// Byte products of NEON: matrices.
    pub i8mm: bool,
}

/// The variable that switches instructions off.
pub const WITHOUT: &str = "NEXTPAIR_WITHOUT";

/// Switches something off.
type Switch = fn(&mut Cpu);

/// What can be switched off, with everything that builds on it.
const SWITCHES: [(&str, Switch); 5] = [
    ("avx2", |cpu| *cpu = Cpu { dotprod: cpu.dotprod, i8mm: cpu.i8mm, ..Cpu::default() }),
    ("avx512", |cpu| (cpu.avx512, cpu.avx512_vnni) = (false, false)),
    ("vnni", |cpu| (cpu.avx512_vnni, cpu.avx_vnni) = (false, false)),
    ("dotprod", |cpu| (cpu.dotprod, cpu.i8mm) = (false, false)),
    ("i8mm", |cpu| cpu.i8mm = false),
];

/// The instructions to use. They do not change while the process runs.
#[inline]
pub fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| {
        let (mut cpu, without) = (detected(), without());
        for (_, switch) in
            SWITCHES.iter().filter(|(name, _)| without.split(',').any(|w| w == *name))
        {
            switch(&mut cpu);
        }
        cpu
    })
}

/// The first name in `NEXTPAIR_WITHOUT` that means nothing, with the names that do. It switches
/// nothing off.
pub fn unknown_switch() -> Option<String> {
    let without = without();
    let known = |name: &str| SWITCHES.iter().any(|(switch, _)| *switch == name);
    let wrong = without.split(',').find(|name| !name.is_empty() && !known(name))?;
    let names = SWITCHES.map(|(name, _)| name).join(", ");
    Some(format!("{WITHOUT}: '{wrong}' is none of {names}"))
}

fn without() -> String {
    std::env::var_os(WITHOUT).unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Cpu {
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    Cpu {
        avx2,
        avx512: avx2 && avx512,
        avx512_vnni: avx2 && avx512 && is_x86_feature_detected!("avx512vnni"),
        avx_vnni: avx2 && is_x86_feature_detected!("avxvnni"),
        ..Cpu::default()
    }
}

#[cfg(target_arch = "aarch64")]
fn detected() -> Cpu {
    let dotprod = std::arch::is_aarch64_feature_detected!("dotprod");
    let i8mm = dotprod && std::arch::is_aarch64_feature_detected!("i8mm");
    Cpu { dotprod, i8mm, ..Cpu::default() }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected() -> Cpu {
    Cpu::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_takes_along_what_builds_on_it() {
        let all = Cpu {
            avx2: true,
            avx512: true,
            avx512_vnni: true,
            avx_vnni: true,
            dotprod: true,
            i8mm: true,
        };
        let without = |name: &str| {
            let mut cpu = all;
            SWITCHES
                .iter()
                .filter(|(switch, _)| *switch == name)
                .for_each(|(_, off)| off(&mut cpu));
            cpu
        };
        assert_eq!(without("avx2"), Cpu { dotprod: true, i8mm: true, ..Cpu::default() });
        assert_eq!(without("avx512"), Cpu { avx512: false, avx512_vnni: false, ..all });
        assert_eq!(without("vnni"), Cpu { avx512_vnni: false, avx_vnni: false, ..all });
        assert_eq!(without("dotprod"), Cpu { dotprod: false, i8mm: false, ..all });
        assert_eq!(without("i8mm"), Cpu { i8mm: false, ..all });
    }
}
