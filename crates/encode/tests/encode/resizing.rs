use nextpair_data::picture::Picture;
use nextpair_encode::Preprocess;

use super::{expected, numbers};

fn prepared(text: &str, picture: &Picture) -> Vec<f32> {
    let rest = "scale = 1\nlayout = \"nhwc\"";
    Preprocess::parse(&format!("{text}\n{rest}")).unwrap().prepare(picture)
}

#[test]
fn pixels_are_those_of_pillow() {
    let all = expected();
    let resized = &all["resized"];
    for case in resized["cases"].as_array().unwrap() {
        let name = case["picture"].as_str().unwrap();
        let (width, height) = name.split_once('x').unwrap();
        let picture = Picture {
            width: width.parse().unwrap(),
            height: height.parse().unwrap(),
            pixels: numbers(&resized["pictures"][name]).iter().map(|&v| v as u8).collect(),
        };
        let (resize, filter) = (case["resize"].as_str().unwrap(), case["filter"].as_str().unwrap());
        let number = match resize {
            "crop" => "crop = 0.875",
            "short-side" => "resize_to = 10",
            _ => "",
        };
        let text = format!("size = [8, 9]\nresize = \"{resize}\"\nfilter = \"{filter}\"\n{number}");
        let found = prepared(&text, &picture);
        let expected = numbers(&case["expected"]);
        let apart = found.iter().zip(&expected).map(|(f, e)| (f - e).abs());
        let worst = apart.fold(0.0, f32::max);
        assert!(worst <= 2.0, "{name} {resize} {filter}: {worst} levels apart");
    }
}

#[test]
fn padding_surrounds_the_picture() {
    let picture = Picture { width: 4, height: 2, pixels: vec![9; 24] };
    let rows = |height: u32, width: u32| {
        let text = format!("size = [{height}, {width}]\nresize = \"pad\"\nfill = [1, 1, 1]");
        let values = prepared(&text, &picture);
        let line = |line: &[f32]| line.iter().step_by(3).map(|v| v.to_string()).collect::<String>();
        values.chunks(3 * width as usize).map(line).collect::<Vec<_>>()
    };
    assert_eq!(rows(4, 4), ["1111", "9999", "9999", "1111"]);
    assert_eq!(rows(2, 8), ["11999911"; 2]);
    assert_eq!(rows(1, 9), ["111991111"]);
}

#[test]
fn extreme_shapes_take_little_memory() {
    for (width, height) in [(1, 3_000_000), (3_000_000, 1)] {
        let picture = Picture { width, height, pixels: vec![7; 9_000_000] };
        for resize in ["squash", "crop", "short-side", "pad"] {
            let text = format!("size = 64\nresize = \"{resize}\"");
            let values = prepared(&text, &picture);
            assert_eq!(values.len(), 3 * 64 * 64);
            assert!(values.contains(&7.0));
        }
    }
}
