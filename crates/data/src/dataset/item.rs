//! One item of a dataset: an image, its captions, or both.

use nextpair_core::system;
use serde::{Deserialize, Serialize};

/// The split that models are trained on.
pub const TRAIN: &str = "train";
/// The split for choosing among trained models.
pub const DEV: &str = "dev";
/// The split for the final evaluation.
pub const TEST: &str = "test";

/// Longest caption in bytes; anything longer is damage.
const LONGEST_CAPTION: usize = 1 << 16;
/// Longest id or path in bytes; anything longer is damage.
const LONGEST_NAME: usize = 1 << 10;

/// An image with its captions. Without captions it is an unpaired image, without an image an
/// unpaired text; both are valid items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Unique among the items of a dataset, and stable: answers refer to it.
    pub id: String,
    /// `train`, `dev`, `test` or any other name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The image file, relative to the image folder of the dataset, with `/` between folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The captions of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub captions: Vec<String>,
}

impl Item {
    /// Returns an error if the item is invalid.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_name("id", &self.id)?;
        if let Some(split) = &self.split {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if split.is_empty() || split.len() > 64 || !split.chars().all(plain) {
                return Err(format!("split {split:?} is not made of letters, digits, - _ and ."));
            }
        }
        if let Some(image) = &self.image {
            check_name("image", image)?;
            check_inside(image)?;
        }
        self.captions.iter().try_for_each(|caption| check_caption(caption))
    }
}

/// Refuses captions that no person would write.
pub(crate) fn check_caption(caption: &str) -> Result<(), String> {
    if caption.trim().is_empty() {
        return Err("the caption is empty".to_owned());
    }
    if caption.len() > LONGEST_CAPTION {
        return Err(format!(
            "the caption has {} bytes, more than {LONGEST_CAPTION}: \"{} ...\"",
            caption.len(),
            caption.chars().take(40).collect::<String>()
        ));
    }
    Ok(())
}

/// Refuses damaged ids and paths.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err(format!("the {what} is empty"));
    }
    if name.len() > LONGEST_NAME {
        return Err(format!("the {what} has {} bytes, more than {LONGEST_NAME}", name.len()));
    }
    if name.chars().any(char::is_control) {
        Err(format!("the {what} {name:?} has control characters"))
    } else {
        Ok(())
    }
}

/// Refuses paths that could lead out of their folder, on any system, and names that this system gives another
/// meaning.
pub(crate) fn check_inside(path: &str) -> Result<(), String> {
    let is_drive = path.as_bytes().get(1) == Some(&b':');
    let leads_out = path.starts_with(['/', '\\'])
        || is_drive
        || path.split(['/', '\\']).any(|part| part == ".." || part.is_empty() || part == ".");
    if leads_out {
        return Err(format!("the path {path:?} is not a plain path inside its folder"));
    }
    // Elsewhere a dataset may have names that Windows refuses.
    path.split('/').try_for_each(|part| {
        system::check_name(part)
            .map_err(|what| format!("the path {path:?} cannot be used: {part:?} {what}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut Item)) -> String {
        let mut item = Item { id: "a".into(), ..Item::default() };
        change(&mut item);
        item.check().unwrap_err()
    }

    #[test]
    fn items_are_lines_of_json() {
        let item = Item {
            id: "a.jpg".into(),
            split: Some(TRAIN.into()),
            image: Some("x/a.jpg".into()),
            captions: vec!["A \"dog\" – runs .".into()],
        };
        let line =
            r#"{"id":"a.jpg","split":"train","image":"x/a.jpg","captions":["A \"dog\" – runs ."]}"#;
        assert_eq!(serde_json::to_string(&item).unwrap(), line);
        assert_eq!(serde_json::from_str::<Item>(line).unwrap(), item);
        assert!(item.check().is_ok());
        let bare: Item = serde_json::from_str(r#"{"id":"a"}"#).unwrap();
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"id":"a"}"#);
        assert!(serde_json::from_str::<Item>(r#"{"id":"a","caption":"x"}"#).is_err());
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["../a", "a/../../b", "/etc/passwd", "a//b", "./a", "a/..", "..\\a", "c:/a", ""]
        {
            refused(|item| item.image = Some(path.into()));
        }
        for path in ["a.jpg", "a/b/c.jpg", "..a/..b", "é/ü.png", "a b.jpg"] {
            let item = Item { id: "i".into(), image: Some(path.into()), ..Item::default() };
            assert_eq!(item.check(), Ok(()));
        }
    }

    #[test]
    fn names_are_refused_where_they_mean_something_else() {
        for path in ["nul.jpg", "a/con/b.jpg", "a.jpg:stream", "a?.jpg", "folder./a.jpg"] {
            let item = Item { id: "i".into(), image: Some(path.into()), ..Item::default() };
            let refused = item.check();
            assert_eq!(refused.is_err(), cfg!(windows), "{path:?}: {refused:?}");
        }
    }

    #[test]
    fn damage_is_named() {
        assert!(refused(|i| i.id = " ".into()).contains("the id is empty"));
        assert!(refused(|i| i.id = "a\nb".into()).contains("control characters"));
        assert!(refused(|i| i.id = "x".repeat(2000)).contains("2000 bytes"));
        assert!(refused(|i| i.split = Some("a b".into())).contains("split \"a b\""));
        assert!(refused(|i| i.captions = vec!["ok".into(), " \t".into()]).contains("is empty"));
        let long = refused(|i| i.captions = vec!["word ".repeat(2_000_000)]);
        assert!(long.contains("10000000 bytes") && long.len() < 200, "{long}");
    }
}
