//! The first difference between two tables of settings.

/// Describes the first key that differs between two tables; `around` is put before its name.
pub fn first_difference(was: &toml::Table, is: &toml::Table, around: &str) -> Option<String> {
    let mut keys: Vec<&String> = was.keys().chain(is.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().find_map(|key| match (was.get(key), is.get(key)) {
        (Some(toml::Value::Table(was)), Some(toml::Value::Table(is))) => {
            first_difference(was, is, &format!("{around}{key}."))
        }
        (was, is) if was == is => None,
        (Some(was), Some(is)) => Some(format!("{around}{key} is {is} and not {was}")),
        (None, Some(is)) => Some(format!("{around}{key} is {is} and was not set")),
        (_, None) => Some(format!("{around}{key} is not set")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_differs_is_named() {
        let table = |text: &str| text.parse::<toml::Table>().unwrap();
        let was = table("a = 1\nc = 3\n[b]\nx = 1\ny = 2\n");
        assert_eq!(first_difference(&was, &was, ""), None);
        for (is, says) in [
            ("a = 1\nc = 3\n[b]\nx = 1\ny = 3\n", "b.y is 3 and not 2"),
            ("a = 1\nc = 4\n[b]\nx = 1\ny = 2\nz = 1\n", "b.z is 1 and was not set"),
            ("a = 1\n[b]\nx = 1\ny = 2\n", "c is not set"),
        ] {
            assert_eq!(first_difference(&was, &table(is), "").unwrap(), says);
        }
    }
}
