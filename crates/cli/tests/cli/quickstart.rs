//! `nextpair quickstart` on a bad folder, and `nextpair example`. The checks of the book run a
//! whole quickstart.

use crate::world::nextpair;

#[test]
fn a_folder_that_is_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("taken"), "a file").unwrap();
    let run = nextpair(folder.path(), "quickstart --fast --out taken");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("taken: "), "{}", run.stderr);
    assert_eq!(std::fs::read(folder.path().join("taken")).unwrap(), b"a file");
}

#[test]
fn examples_are_the_same_every_time() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let run = nextpair(folder.path(), &format!("example {name}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.contains("nextpair select --paired-images"), "{}", run.stderr);
    }
    for file in ["paired_images.npy", "paired_texts.npy", "pool.npy"] {
        let [a, b] = ["a", "b"].map(|name| std::fs::read(folder.path().join(name).join(file)));
        assert_eq!(a.unwrap(), b.unwrap());
    }
}
