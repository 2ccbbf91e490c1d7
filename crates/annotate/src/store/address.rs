//! Database URLs as people write them.

use std::path::Path;

use nextpair_data::{ordinary, system};

use crate::error::Error;

/// The parsed URL of a database.
#[derive(Debug)]
pub(super) struct Address {
    /// The name for errors, without a password.
    pub(super) name: String,
    /// The URL for the driver.
    pub(super) url: String,
    /// The SQLite file.
    pub(super) file: Option<String>,
}

impl Address {
    /// Parses a URL. Creates a missing SQLite file, readable only by its owner.
    pub(super) fn of(text: &str) -> Result<Self, Error> {
        let name = without_password(text);
        let fail = |what: &str| Error::Database { database: name.clone(), what: what.to_owned() };
        let file = text.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
        let url = match file {
            Some("" | ":memory:") => return Err(fail("answers are kept in a file: sqlite:PATH")),
            Some(path) => {
                make_private(Path::new(path)).map_err(|e| fail(&e.to_string()))?;
                sqlite_url(path)
            }
            None => {
                let schemes = ["postgres://", "postgresql://"];
                if !schemes.iter().any(|scheme| text.starts_with(scheme)) {
                    return Err(fail("a database is sqlite:PATH or postgres://..."));
                }
                text.to_owned()
            }
        };
        Ok(Address { name, url, file: file.map(str::to_owned) })
    }
}

/// The URL of an existing file, with special characters escaped.
fn sqlite_url(path: &str) -> String {
    let mut address = String::from("sqlite:");
    for letter in path.chars() {
        match letter {
            '%' => address.push_str("%25"),
            '?' => address.push_str("%3F"),
            '#' => address.push_str("%23"),
            other => address.push(other),
        }
    }
    address + "?mode=rw"
}

/// Makes the file readable only by its owner: it holds the key that signs sessions. On Windows it has the permissions
/// of its folder.
fn make_private(path: &Path) -> Result<(), nextpair_data::Error> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    system::create_private(&mut options);
    let file = ordinary::open_with(path, &mut options)?;
    system::make_private(&file).map_err(|e| nextpair_data::Error::io(path, e))
}

/// Removes the password from a URL.
fn without_password(url: &str) -> String {
    // A password may contain any of the delimiters around it.
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let (scheme, user) = before.split_once("://").unwrap_or(("postgres", ""));
    let user = user.split(':').next().unwrap_or_default();
    let host = host.split('?').next().unwrap_or_default();
    format!("{scheme}://{user}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, told) in [
            ("postgres://ann:secret@db.example/captions?x=1", "postgres://ann@db.example/captions"),
            ("postgres://ann:se@cret@db/captions", "postgres://ann@db/captions"),
            ("postgres://u:se?cret@h/x", "postgres://u@h/x"),
            ("postgres:u:secret@h/x", "postgres://@h/x"),
            ("postgres://db:5432/captions", "postgres://db:5432/captions"),
            ("sqlite:run/annotate.db", "sqlite:run/annotate.db"),
        ] {
            assert_eq!(without_password(url), told);
        }
    }

    #[test]
    fn any_path_is_an_address() {
        assert_eq!(sqlite_url("a?b#c%20d e.db"), "sqlite:a%3Fb%23c%2520d e.db?mode=rw");
    }
}
