//! Killed runs resume to the same results.

use std::time::Instant;

use nextpair::engine::Draws;

use super::Lab;

const KILLS: usize = 8;

#[test]
fn killed_anywhere_and_resumed_it_finds_the_same() {
    let lab = Lab::new(80);
    let words = "--seeds 0,1 --strategies random,hard-negative,coverage --epochs 12 --jobs 2";
    let began = Instant::now();
    lab.succeeds(&format!("run e.toml {words} --out whole"));
    let (whole, expected) = (began.elapsed(), lab.results("whole"));
    let mut draws = Draws::new(7);
    let (mut kills, mut runs) = (0, 0);
    while kills < KILLS {
        let out = format!("killed-{runs}");
        runs += 1;
        loop {
            let mut child = lab.start(&format!("run e.toml {words} --out {out} --resume"));
            let until = Instant::now() + whole.mul_f64(0.8 * draws.unit());
            while (kills == KILLS || Instant::now() < until) && child.try_wait().unwrap().is_none()
            {
                std::thread::yield_now();
            }
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "after {kills} kills");
                break;
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
        }
        lab.assert_same(&out, &expected);
    }
    // Killed before its first training: the folder alone tells how to go on.
    std::fs::create_dir(lab.path("begun")).unwrap();
    lab.refused(
        "run begun --resume",
        "begun: there is no experiment.toml in it; begin an experiment with",
    );
    std::fs::copy(lab.path("whole/experiment.toml"), lab.path("begun/experiment.toml")).unwrap();
    lab.succeeds("run begun --resume");
    lab.assert_same("begun", &expected);
    // A finished folder can be resumed by its name alone, and has nothing left to do but to clear up after a kill that came
    // while the last state of a model was written.
    let left = "killed-0/seed-1/hard-negative/round-1/.nextpair-left";
    std::fs::write(lab.path(left), "").unwrap();
    let run = lab.succeeds("run killed-0 --resume");
    assert!(run.stderr.contains("14 trainings, 14 of them done before"), "{}", run.stderr);
    lab.assert_same("killed-0", &expected);
}
