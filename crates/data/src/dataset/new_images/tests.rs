//! Tests of images that people bring: their names, and the datasets they become part of.

use image::{Rgb, RgbImage};

use super::*;
use crate::dataset::sample::{dataset, item};
use crate::scenes::encode_png;
use crate::{Matrix, npy};

/// A picture of one colour, as a file.
fn png(shade: u8) -> Vec<u8> {
    encode_png(&RgbImage::from_pixel(3, 2, Rgb([shade, 0, 0]))).unwrap()
}

/// Two images, of which one is for tests, and two texts; the images have features.
fn sample(folder: &Path) -> Dataset {
    let old = folder.join("old");
    fs::create_dir_all(old.join("pictures")).unwrap();
    fs::write(old.join("pictures/a.png"), png(1)).unwrap();
    fs::write(old.join("pictures/b.png"), png(2)).unwrap();
    let mut test = item("b", Some("b.png"), &["B"]);
    test.split = Some("test".into());
    let items = [
        item("a", Some("a.png"), &["A"]),
        test,
        item("t", None, &["T one", "T two"]),
        item("u", None, &["U"]),
    ];
    let mut file = fs::File::create(old.join("i.npy")).unwrap();
    npy::write_f32(&mut file, 2, 1, [1.0, 2.0]).unwrap();
    npy::write_i64(&mut fs::File::create(old.join("r.npy")).unwrap(), &[0, 1, -1, -1]).unwrap();
    let mut file = fs::File::create(old.join("t.npy")).unwrap();
    npy::write_f32(&mut file, 5, 1, [10.0, 11.0, 12.0, 13.0, 14.0]).unwrap();
    let set = |name: &str, side, per, rows: Option<&str>| FeatureSet {
        name: name.into(),
        side,
        per,
        files: vec![format!("{name}.npy").into()],
        rows: rows.map(Into::into),
        made_by: None,
        digests: Default::default(),
    };
    dataset(&old, &items, |manifest| {
        manifest.images = Some("pictures".into());
        manifest.features = vec![
            set("i", Side::Image, Per::Item, Some("r.npy")),
            set("t", Side::Text, Per::Caption, None),
        ];
    })
}

fn says(id: &str, image: &str) -> Answer {
    let said = AnswerContent::Image(image.into());
    Answer { id: id.into(), said, annotator: None, provenance: None }
}

fn images(answers: &[Answer]) -> Vec<&str> {
    answers.iter().filter_map(image).collect()
}

/// Gives every image a number: its red.
struct Red;

impl FeatureSource for Red {
    fn check(&self, _: &Dataset, _: &FeatureSet) -> Result<(), Box<dyn AnyError + Send + Sync>> {
        Ok(())
    }

    fn text_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        _: &[&str],
        _: &dyn Progress,
    ) -> Result<Matrix, Box<dyn AnyError + Send + Sync>> {
        Err("there are no texts".into())
    }

    fn image_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        images: &[&Path],
        _: &dyn Progress,
    ) -> Result<Matrix, Box<dyn AnyError + Send + Sync>> {
        let red = |path: &&Path| Ok(f32::from(picture::read(path)?.pixels[0]));
        let red = images.iter().map(red).collect::<Result<Vec<f32>, Error>>()?;
        Ok(Matrix::from_vec(
            1,
            red.into_iter().map(|r| if r > 99.0 { f32::NAN } else { r }).collect(),
        ))
    }
}

#[test]
fn images_are_called_by_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(folder.path());
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    fs::create_dir_all(one.join("sub")).unwrap();
    fs::create_dir_all(&two).unwrap();
    fs::write(one.join("sub/x.png"), png(7)).unwrap();
    fs::write(two.join("y.jpg"), png(7)).unwrap();
    fs::write(two.join("z.png"), png(8)).unwrap();
    fs::write(two.join("same as a.png"), png(1)).unwrap();
    let mut answers = [
        says("t", "folder:sub/x.png"),
        says("u", "a"),
        says("u", "upload:y.jpg"),
        says("u", "z.png"),
        says("t", "folder:same as a.png"),
    ];
    let places = [one.clone(), two.clone()];
    let found = NewImages::find(&old, &mut answers, &places).unwrap();
    let seven = images(&answers)[0].to_owned();
    let eight = images(&answers)[3].to_owned();
    assert_eq!(images(&answers), [&seven, "a", &seven, &eight, "a"]);
    assert!(seven.starts_with("upload:") && seven.ends_with(".png") && seven.len() == 7 + 32 + 4);
    assert_eq!(found.files[&seven], one.join("sub/x.png"));
    assert_eq!(found.files.len(), 2);
    // Kept under their names, once.
    let store = folder.path().join("store");
    let kept = found.kept_in(&store).unwrap();
    assert_eq!(fs::read(&kept.files[&seven]).unwrap(), png(7));
    assert_eq!(kept.files[&seven], store.join(&seven["upload:".len()..]));
    // What is damaged there is replaced.
    fs::write(&kept.files[&seven], "x").unwrap();
    found.kept_in(&store).unwrap();
    assert_eq!(fs::read(&kept.files[&seven]).unwrap(), png(7));
    // A kept image is found by its name, and what changed meanwhile is not kept.
    let mut again = [says("t", &seven)];
    NewImages::find(&old, &mut again, &[store]).unwrap();
    assert_eq!(images(&again), [&seven]);
    fs::write(one.join("sub/x.png"), png(9)).unwrap();
    let what = found.kept_in(&folder.path().join("other")).unwrap_err().to_string();
    assert!(what.contains("x.png: has other bytes than the image upload:"), "{what}");
    assert!(NewImages::find(&old, &mut [says("t", "none")], &[]).unwrap().files.is_empty());
}

#[test]
fn bad_images_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(folder.path());
    let places = [folder.path().join("new")];
    let place = &places[0];
    fs::create_dir_all(place.join("folder.png")).unwrap();
    let whole = png(5);
    fs::write(place.join("cut.png"), &whole[..whole.len() - 9]).unwrap();
    fs::write(place.join("text.png"), "no picture").unwrap();
    fs::write(place.join("test.png"), png(2)).unwrap();
    fs::write(place.join("good.png"), whole).unwrap();
    fs::write(folder.path().join("outside.png"), png(6)).unwrap();
    let absolute = place.join("good.png").display().to_string();
    for (name, expected) in [
        ("gone.png", "row 1: an answer about \"t\": there is no item \"gone.png\", and no image"),
        ("folder.png", "there is no item \"folder.png\", and no image file of it in "),
        ("folder:cut.png", "cut.png: damaged: the file is cut off"),
        ("text.png", "text.png: not a JPEG, PNG, WebP, GIF or BMP picture"),
        ("test.png", "test.png is the image of the item \"b\" of the split test"),
        ("../outside.png", "is not a plain path inside its folder"),
        ("upload:../outside.png", "is not a plain path inside its folder"),
        (&absolute, "is not a plain path inside its folder"),
    ] {
        let mut answers = [says("u", "good.png"), says("t", name)];
        let what = NewImages::find(&old, &mut answers, &places).unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
}

#[test]
fn datasets_grow_by_images() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(folder.path());
    let place = folder.path().join("new");
    fs::create_dir(&place).unwrap();
    for (name, shade) in [("x.png", 7), ("y.png", 8), ("odd.png", 200), ("unused.png", 9)] {
        fs::write(place.join(name), png(shade)).unwrap();
    }
    let mut answers = [
        says("u", "y.png"),
        says("t", "x.png"),
        says("u", "x.png"),
        says("t", "y.png"),
        says("u", "odd.png"),
    ];
    let found = NewImages::find(&old, &mut answers, &[place]).unwrap();
    let found = found.encoded(&old, &Red, &()).unwrap();
    let out = folder.path().join("larger");
    assert!(old.check_answers(&answers, &NewImages::default()).is_err());
    old.check_answers(&answers, &found).unwrap();
    let new = old.enlarged(&out, &answers, &[], &found).unwrap();
    let items: Vec<_> = new.items().iter().skip(4).collect();
    let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids, [images(&answers)[0], images(&answers)[1], images(&answers)[4]]);
    let captions: Vec<_> = items.iter().map(|item| item.captions.join("|")).collect();
    assert_eq!(captions, ["U|T one|T two", "T one|T two|U", "U"]);
    assert!(items.iter().all(|item| item.split.as_deref() == Some("train")));
    assert_eq!(fs::read(new.image_file(&items[0]).unwrap()).unwrap(), png(8));
    assert_eq!(fs::read(new.image_file(&new.items().get(0)).unwrap()).unwrap(), png(1));
    let (_, pictures) = new.features(Side::Image, None).unwrap();
    let numbers = |features: &crate::dataset::Features, of: usize| {
        let read = |row| {
            let mut number = [0.0];
            features.matrix().read_f32(row, &mut number);
            number[0]
        };
        (0..of).map(|at| features.row(at).map_or(-1.0, read)).collect::<Vec<f32>>()
    };
    assert_eq!(numbers(&pictures, 7), [1.0, 2.0, -1.0, -1.0, 8.0, 7.0, -1.0]);
    let (_, features) = new.features(Side::Text, None).unwrap();
    let texts = [10.0, 11.0, 12.0, 13.0, 14.0, 14.0, 12.0, 13.0, 12.0, 13.0, 14.0, 14.0];
    assert_eq!(numbers(&features, 12), texts);
    assert!(new.manifest().source.ends_with("enlarged by 7 captions and 3 images"));

    // The same answers make the same bytes, and an earlier dataset is replaced.
    let items = fs::read(out.join("items.jsonl")).unwrap();
    let rows = fs::read(out.join("features/0.rows.npy")).unwrap();
    drop((new, pictures, features));
    old.enlarged(&out, &answers[..1], &[], &found).unwrap();
    assert_eq!(fs::read_dir(out.join("images")).unwrap().count(), 1);
    let new = old.enlarged(&out, &answers, &[], &found).unwrap();
    assert_eq!(fs::read(out.join("items.jsonl")).unwrap(), items);
    assert_eq!(fs::read(out.join("features/0.rows.npy")).unwrap(), rows);

    // An enlarged dataset knows its images: the same one is no new item there.
    let more = folder.path().join("more");
    fs::create_dir(&more).unwrap();
    fs::write(more.join("again.png"), png(7)).unwrap();
    fs::write(more.join("other.png"), png(11)).unwrap();
    let mut later = [says("u", "other.png"), says("t", "again.png")];
    let found = NewImages::find(&new, &mut later, &[more]).unwrap();
    assert_eq!((found.files.len(), images(&later)[1]), (1, ids[1]));
    let found = found.encoded(&new, &Red, &()).unwrap();
    let twice = new.enlarged(&folder.path().join("twice"), &later, &[], &found).unwrap();
    let (_, features) = twice.features(Side::Image, None).unwrap();
    assert_eq!(numbers(&features, 8), [1.0, 2.0, -1.0, -1.0, 8.0, 7.0, -1.0, 11.0]);
    for (item, shade) in [(0, 1), (4, 8), (7, 11)] {
        let file = twice.image_file(&twice.items().get(item)).unwrap();
        assert_eq!(fs::read(file).unwrap(), png(shade));
    }

    // A file that changed since makes nothing.
    let file = found.files.values().next().unwrap();
    fs::write(file, png(12)).unwrap();
    let third = folder.path().join("third");
    let what = new.enlarged(&third, &later, &[], &found).unwrap_err().to_string();
    assert!(what.contains("other.png: has other bytes than the image"), "{what}");
    assert!(!third.exists() && !folder.path().join(".third.partial").exists());
}
