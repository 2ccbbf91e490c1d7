//! Mistakes of kernels that an emulated GPU shows, and a real one may not.

use std::process::Command;
use std::sync::Arc;

use nextpair_cuda::{Array, Gpu, Grid, Kernels};

use crate::gpu;

static KERNELS: Kernels = Kernels { name: "broken", sources: &[include_str!("broken.cu")] };

/// The kernel that [`run_one`] runs.
const VARIABLE: &str = "NEXTPAIR_BROKEN_KERNEL";

/// Kernels that fail, their bytes of dynamic shared memory, and what is said of them.
const FAILING: [(&str, usize, &str); 5] = [
    ("beyond_the_array", 0, "it uses the illegal address"),
    ("beyond_shared_memory", 256, "it uses the illegal address"),
    ("too_much_shared_memory", 220 * 1024, "it needs more than 227 KB of shared memory"),
    ("waits_forever", 0, "its threads wait for each other, and none can go on"),
    ("different_meetings", 0, "threads of a warp meet in different instructions"),
];

fn emulated() -> Option<Arc<Gpu>> {
    gpu().filter(|gpu| gpu.name() == "Emulated GPU")
}

#[test]
fn numbers_that_nobody_wrote_are_none() {
    let Some(gpu) = emulated() else { return };
    let fresh = Array::<f32>::empty(&gpu, 64).unwrap();
    let copied = Array::<f32>::zeros(&gpu, 64).unwrap();
    assert!(fresh.to_vec().unwrap().iter().all(|number| number.is_nan()), "fresh memory");
    for (name, arguments) in [
        ("no_barrier", vec![(&fresh).into()]),
        ("no_wait", vec![(&copied).into(), (&fresh).into()]),
        ("nothing_written", vec![(&fresh).into()]),
    ] {
        let threads = if name == "no_wait" { 16 } else { 64 };
        // SAFETY: the arrays have 64 numbers, as many as each kernel uses.
        unsafe { gpu.launch(&KERNELS, name, Grid::blocks(1, threads).shared(256), &arguments) }
            .unwrap();
        let found = fresh.to_vec().unwrap();
        assert!(found.iter().any(|number| number.is_nan()), "{name}: {found:?}");
    }
}

#[test]
fn a_kernel_that_fails_is_named() {
    if emulated().is_none() {
        return;
    }
    for (name, _, expected) in FAILING {
        // All that follows a failure fails too: each has a process of its own.
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["mistakes::run_one", "--exact", "--ignored"]).env(VARIABLE, name);
        let output = test.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {said}");
        assert!(said.contains(&format!("kernel {name}: {expected}")), "{name}: {said}");
    }
}

#[test]
#[ignore = "loses the device of its process; another test starts it"]
fn run_one() {
    let Ok(name) = std::env::var(VARIABLE) else { return };
    let (name, shared, _) = FAILING.into_iter().find(|(known, ..)| *known == name).unwrap();
    let Some(gpu) = emulated() else { return };
    let out = Array::<f32>::zeros(&gpu, 64).unwrap();
    // SAFETY: what the kernel does wrong, the emulated GPU finds.
    let launched =
        unsafe { gpu.launch(&KERNELS, name, Grid::blocks(1, 64).shared(shared), &[(&out).into()]) };
    launched.unwrap_err();
    gpu.wait().unwrap_err();
    out.to_vec().unwrap_err();
}
