//! Tests that exports can be read back, by us and by others.

use serde_json::{Value, json};

use super::*;
use crate::Draws;
use crate::dataset::sample::{dataset, item};
use crate::queue::{Provenance, Why, read_answers};

fn task(id: &str) -> Task {
    let (id, of, caption) = (id.to_owned(), Some("w".to_owned()), Some("=1+1".to_owned()));
    let why =
        Why { id: of, caption, similarity: 0.5, threshold: 0.25, surplus: 0.25, ..Why::default() };
    Task { rank: 1, id, score: 0.5, hits: Some(1), why: vec![why], ..Task::default() }
}

fn answer(id: &str, said: AnswerContent, annotator: Option<&str>) -> Answer {
    Answer { id: id.into(), said, annotator: annotator.map(Into::into), provenance: None }
}

fn exported(
    form: ExportFormat,
    tasks: &[Task],
    answers: &[Answer],
    data: &Dataset,
    pool: Side,
) -> Vec<u8> {
    let mut out = Vec::new();
    export(&mut out, form, &answered(tasks, answers), data, pool).unwrap();
    out
}

fn answered(tasks: &[Task], answers: &[Answer]) -> Answered {
    let (tasks, answers) = (tasks.to_vec(), answers.to_vec());
    Answered { tasks, answers, unreviewed: HashSet::new() }
}

#[test]
fn forms_are_known_by_name() {
    for form in ExportFormat::ALL {
        assert_eq!(form.to_string().parse::<ExportFormat>().unwrap(), form);
    }
    let what = "xml".parse::<ExportFormat>().unwrap_err().to_string();
    assert_eq!(what, "form: \"xml\" is none of jsonl, csv, coco, label-studio");
}

/// Ids, captions, reasons and names that are hard for one format or another.
const ODD: [&str; 10] =
    ["a", "=1+1", "'=x", "no", "a,\"b\"; c", "ü <b>", "-", "''@", "line\nbreak", "0"];

#[test]
fn everything_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<&str> = ODD.into_iter().filter(|id| !id.contains('\n')).collect();
    let items: Vec<_> = ids.iter().map(|id| item(id, None, &["one", "two"])).collect();
    let data = dataset(&folder.path().join("d"), &items, |_| {});
    let tasks: Vec<Task> = ids.iter().map(|id| task(id)).collect();
    let mut draws = Draws::new(5);
    let mut drawn = |from: &[&'static str]| from[(draws.unit() * from.len() as f64) as usize];
    for round in 0..100 {
        let pool = [Side::Image, Side::Text][round % 2];
        let mut answers: Vec<Answer> = Vec::new();
        for _ in 0..8 {
            let annotator = Some(drawn(&ids)).filter(|_| drawn(&["x", "y"]) == "x");
            let said = match (drawn(&["x", "x", "y"]), pool) {
                ("y", _) => {
                    AnswerContent::Skip(drawn(&["", ODD[1], ODD[3], ODD[8], ODD[9]]).into())
                }
                (_, Side::Image) => AnswerContent::Caption(drawn(&ODD).into()),
                (_, Side::Text) => AnswerContent::Image(drawn(&ids).into()),
            };
            let mut next = answer(drawn(&ids), said, annotator);
            if matches!(next.said, AnswerContent::Caption(_)) {
                next.provenance = Provenance::of_name(drawn(&["", "accepted", "edited"])).unwrap();
            }
            if !answers.contains(&next) {
                answers.push(next);
            }
        }
        for form in ExportFormat::ALL {
            let mut expected = answers.clone();
            match form {
                ExportFormat::Coco => {
                    expected.retain(|answer| !matches!(answer.said, AnswerContent::Skip(_)))
                }
                ExportFormat::LabelStudio => {
                    let place = |answer: &Answer| ids.iter().position(|id| *id == answer.id);
                    expected.sort_by_key(place);
                }
                ExportFormat::Jsonl | ExportFormat::Csv => {}
            }
            let path = folder.path().join(form.file_name());
            std::fs::write(&path, exported(form, &tasks, &answers, &data, pool)).unwrap();
            assert_eq!(read_answers(&path, pool, &data).unwrap(), expected, "{form}");
        }
    }
}

#[test]
fn an_export_says_what_became_of_every_task_and_is_read_as_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let ids = ["a", "b", "c", "=d"];
    let data = dataset(folder.path(), &ids.map(|id| item(id, None, &["x"])), |_| {});
    let answers = [
        answer("b", AnswerContent::Skip("dark".into()), Some("eve")),
        answer("a", AnswerContent::Caption("A star .".into()), None),
    ];
    let tasks = ids.map(task);
    let unreviewed = HashSet::from(["c".to_owned()]);
    let all = Answered { unreviewed, ..answered(&tasks, &answers) };
    let file = |form: ExportFormat| {
        let path = folder.path().join(form.file_name());
        let mut out = Vec::new();
        export(&mut out, form, &all, &data, Side::Image).unwrap();
        std::fs::write(&path, &out).unwrap();
        (path, String::from_utf8(out).unwrap())
    };
    let (jsonl, lines) = file(ExportFormat::Jsonl);
    let open: Vec<&str> = lines.lines().skip(2).collect();
    let expected = [r#"{"id":"c","status":"unreviewed"}"#, r#"{"id":"=d","status":"unanswered"}"#];
    assert_eq!(open, expected);
    let (sheet, rows) = file(ExportFormat::Csv);
    assert!(rows.ends_with("c,c,0.5,'=1+1,,,,unreviewed\n'=d,'=d,0.5,'=1+1,,,,unanswered\n"));
    let (studio, tasks) = file(ExportFormat::LabelStudio);
    let tasks: Value = serde_json::from_str(&tasks).unwrap();
    let status = |at: usize| tasks[at]["data"]["status"].as_str().unwrap().to_owned();
    assert_eq!([0, 1, 2, 3].map(status), ["answered", "refused", "unreviewed", "unanswered"]);
    let (_, coco) = file(ExportFormat::Coco);
    let info = serde_json::from_str::<Value>(&coco).unwrap()["info"].clone();
    assert_eq!((&info["unreviewed"], &info["unanswered"]), (&json!(1), &json!(1)));
    for path in [&jsonl, &sheet] {
        assert_eq!(read_answers(path, Side::Image, &data).unwrap(), answers);
    }
    for path in [&jsonl, &sheet, &studio] {
        assert_eq!(crate::queue::read_refused(path, Side::Image).unwrap(), ["b"]);
    }
    // What somebody typed into such a row would be lost.
    std::fs::write(&sheet, rows.replace(",,,,unanswered", ",A dog .,,,unanswered")).unwrap();
    let what = read_answers(&sheet, Side::Image, &data).unwrap_err().to_string();
    assert!(what.contains("exported is \"unanswered\", not caption or skip"), "{what}");
}

#[test]
fn no_cell_is_a_formula() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path(), &[item("=a", None, &[])], |_| {});
    let said = [AnswerContent::Caption("=HYPERLINK(1)".into()), AnswerContent::Skip("@x".into())];
    let answers = said.map(|said| answer("=a", said, Some("+eve")));
    let sheet = exported(ExportFormat::Csv, &[task("=a")], &answers, &data, Side::Image);
    let expected = "\u{feff}id,image,score,confused_with,caption,skip,annotator,exported\n\
                    '=a,'=a,0.5,'=1+1,'=HYPERLINK(1),,'+eve,caption\n\
                    '=a,'=a,0.5,'=1+1,,'@x,'+eve,skip\n";
    assert_eq!(String::from_utf8(sheet).unwrap(), expected);
}

#[test]
fn coco_has_images_and_captions() {
    let folder = tempfile::tempdir().unwrap();
    let mut png = std::io::Cursor::new(Vec::new());
    image::RgbImage::new(3, 2).write_to(&mut png, image::ImageFormat::Png).unwrap();
    std::fs::create_dir_all(folder.path().join("images")).unwrap();
    std::fs::write(folder.path().join("images/c.png"), png.into_inner()).unwrap();
    let items = [
        item("none", None, &["x"]),
        item("b", Some("gone.jpg"), &["one", "two"]),
        item("c", Some("c.png"), &[]),
    ];
    let data = dataset(folder.path(), &items, |manifest| manifest.images = Some("images".into()));
    let tasks = ["b", "c"].map(task);
    let answers = [
        answer("c", AnswerContent::Caption("A star .".into()), Some("eve")),
        answer("b", AnswerContent::Skip("dark".into()), None),
        answer("b", AnswerContent::Caption("A dog .".into()), None),
        answer("c", AnswerContent::Caption("Stars .".into()), None),
    ];
    let file = exported(ExportFormat::Coco, &tasks, &answers, &data, Side::Image);
    let file: Value = serde_json::from_slice(&file).unwrap();
    let expected = json!({
        "info": {
            "description": "captions of sample, collected with nextpair",
            "version": env!("CARGO_PKG_VERSION"), "skipped": 1, "unreviewed": 0, "unanswered": 0,
            "images_not_in_dataset": 0,
        },
        "images": [
            { "id": 2, "file_name": "gone.jpg", "nextpair_id": "b" },
            { "id": 3, "file_name": "c.png", "width": 3, "height": 2, "nextpair_id": "c" },
        ],
        "annotations": [
            { "id": 1, "image_id": 3, "caption": "A star .", "annotator": "eve" },
            { "id": 2, "image_id": 2, "caption": "A dog ." },
            { "id": 3, "image_id": 3, "caption": "Stars ." },
        ],
        "licenses": [],
    });
    assert_eq!(file, expected);
    let answers = [answer("b", AnswerContent::Image("c".into()), Some("eve"))];
    let file = exported(ExportFormat::Coco, &tasks, &answers, &data, Side::Text);
    let file: Value = serde_json::from_slice(&file).unwrap();
    let annotation = |id: u32, caption: &str| json!({ "id": id, "image_id": 3, "caption": caption, "annotator": "eve", "nextpair_id": "b" });
    assert_eq!(file["annotations"], json!([annotation(1, "one"), annotation(2, "two")]));
}

#[test]
fn label_studio_has_scores_and_annotations() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path(), &["a", "b"].map(|id| item(id, None, &[])), |_| {});
    let answers = [answer("b", AnswerContent::Skip("dark".into()), Some("eve"))];
    let tasks = ["a", "b"].map(task);
    let file = exported(ExportFormat::LabelStudio, &tasks, &answers, &data, Side::Image);
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(
        (&file[0]["data"]["score"], &file[0]["predictions"][0]["score"]),
        (&json!(0.5), &json!(0.5))
    );
    assert_eq!(file[0]["annotations"], json!([]));
    let annotation = &file[1]["annotations"][0];
    assert_eq!(annotation["completed_by"], json!({ "email": "eve" }));
    assert_eq!(annotation["was_cancelled"], true);
}

#[test]
fn answers_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = dataset(folder.path(), &["a", "b"].map(|id| item(id, None, &["x"])), |_| {});
    let good = answer("a", AnswerContent::Skip(String::new()), None);
    for form in ExportFormat::ALL {
        for (bad, expected) in [
            (
                answer("b", AnswerContent::Caption("x".into()), None),
                "row 1: an answer about \"b\", which is",
            ),
            (
                answer("a", AnswerContent::Image("a".into()), None),
                "row 1: not an answer about images",
            ),
            (answer("a", AnswerContent::Caption(" ".into()), None), "row 1: the caption is empty"),
        ] {
            let answers = [good.clone(), bad];
            let answered = answered(&[task("a")], &answers);
            let failed = export(&mut Vec::new(), form, &answered, &data, Side::Image);
            let what = failed.unwrap_err().to_string();
            assert!(what.contains(expected) && what.starts_with(form.file_name()), "{what}");
        }
        let unknown = answered(&[task("z")], &[]);
        let failed = export(&mut Vec::new(), form, &unknown, &data, Side::Image);
        assert!(failed.unwrap_err().to_string().contains("has no item \"z\""));
        let good = answered(&[task("a")], std::slice::from_ref(&good));
        let full = export(&mut Full, form, &good, &data, Side::Image);
        assert!(matches!(full, Err(Error::Io { .. })), "{form}");
    }
    // Uploaded images are counted.
    let brought = [answer("a", AnswerContent::Image("upload:z.png".into()), None)];
    let mut file = Vec::new();
    let brought = answered(&[task("a")], &brought);
    export(&mut file, ExportFormat::Coco, &brought, &data, Side::Text).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(file["info"]["images_not_in_dataset"], 1);
    assert_eq!((&file["images"], &file["annotations"]), (&json!([]), &json!([])));
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
