//! Names from files in messages, where there may be millions of them.

/// Names that are shown.
const SHOWN: usize = 20;
/// Characters of a name that are shown.
const LONGEST: usize = 100;

/// The first names, and how many more there are.
pub fn listed<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    let mut names = names.into_iter();
    let shown = names.by_ref().take(SHOWN).map(|name| {
        let name = name.as_ref();
        match name.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", &name[..end]),
            None => name.to_owned(),
        }
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_and_long_names_are_cut_off() {
        assert_eq!(listed::<&str>([]), "");
        assert_eq!(listed(["a", "b"]), "a, b");
        let many = listed((0..1_000_000).map(|name| name.to_string()));
        assert!(many.starts_with("0, 1, ") && many.ends_with(", 19 and 999980 more"), "{many}");
        assert_eq!(listed(["é".repeat(1000)]), "é".repeat(100) + "...");
    }
}
