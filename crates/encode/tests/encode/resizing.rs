use nextpair_data::picture::Picture;
use nextpair_encode::{Error, Preprocess};

use super::{expected, numbers};

fn prepared(text: &str, picture: &Picture) -> Vec<f32> {
    let rest = "scale = 1\nlayout = \"nhwc\"";
    Preprocess::parse(&format!("{text}\n{rest}")).unwrap().prepare(picture).unwrap()
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
    for length in [3_000_000, 16_777_216, 20_000_000] {
        let mut picture =
            Picture { width: 1, height: length, pixels: vec![7; 3 * length as usize] };
        for resize in ["squash", "crop", "short-side", "pad"] {
            for filter in ["nearest", "bilinear", "lanczos"] {
                let text = format!("size = 64\nresize = \"{resize}\"\nfilter = \"{filter}\"");
                let upright = prepared(&text, &picture);
                std::mem::swap(&mut picture.width, &mut picture.height);
                let lying = prepared(&text, &picture);
                // Beside a padded line of one pixel there is only the fill.
                let expected = if resize == "pad" { 64 } else { 64 * 64 };
                for values in [upright, lying] {
                    assert_eq!(values.len(), 3 * 64 * 64);
                    let found = values.iter().filter(|&&value| value == 7.0).count();
                    assert_eq!(found, 3 * expected, "{length} {resize} {filter}");
                }
            }
        }
    }
}

#[test]
fn long_lines_keep_their_order() {
    // A ramp over all levels, left to right.
    let width = 5_000_011u32;
    let level = |x: u32| (u64::from(x) * 256 / u64::from(width)) as u8;
    let pixels = (0..2 * width).flat_map(|at| [level(at % width); 3]).collect();
    let picture = Picture { width, height: 2, pixels };
    for filter in ["nearest", "bilinear", "bicubic", "lanczos"] {
        let text = format!("size = [1, 32]\nresize = \"squash\"\nfilter = \"{filter}\"");
        for (x, value) in prepared(&text, &picture).iter().step_by(3).enumerate() {
            let expected = 8.0 * x as f32 + 3.5;
            assert!((value - expected).abs() <= 1.5, "{filter} {x}: {value}, not {expected}");
        }
    }
}

#[test]
fn files_that_are_no_pictures_are_refused() {
    let settings = Preprocess::preset("imagenet").unwrap();
    for (width, height, bytes) in [(0, 0, 0), (0, 5, 0), (5, 0, 0), (2, 2, 11), (2, 2, 13)] {
        let picture = Picture { width, height, pixels: vec![0; bytes] };
        let error = settings.prepare(&picture).unwrap_err();
        assert!(matches!(error, Error::Picture { .. }), "{error}");
    }
    let huge = Picture { width: u32::MAX, height: u32::MAX, pixels: vec![] };
    let what = settings.prepare(&huge).unwrap_err().to_string();
    assert!(what.starts_with("0 bytes for 4294967295 x 4294967295 pixels; accepted"), "{what}");
}
