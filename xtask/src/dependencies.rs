//! What a crate must not depend on, so that it can be used without.

use crate::{cargo, root};

#[test]
fn the_engine_reads_no_files_of_others() {
    let arguments = ["tree", "-p", "nextpair-engine", "-e", "normal", "--prefix", "none"];
    let mut tree = cargo(&arguments);
    let tree = tree.args(["--locked", "--offline"]).current_dir(root().unwrap()).output().unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"nextpair-core"), "{names:?}");
    for heavy in ["parquet", "image", "tar"] {
        assert!(!names.contains(&heavy), "nextpair-engine depends on {heavy}");
    }
}
