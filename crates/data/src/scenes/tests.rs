//! Tests of whole worlds.

mod truth;

use std::collections::{HashMap, HashSet};

use super::*;

fn world(images: usize) -> World {
    World::new(Settings { images, ..Settings::default() }).unwrap()
}

/// FNV-1a.
fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn fingerprint(scene: &Scene) -> [u64; 3] {
    let picture = scene.render();
    let features = describe(&picture).into_iter().flat_map(f32::to_le_bytes);
    let captions = scene.captions().join("\n").into_bytes();
    [hash(picture.into_raw()), hash(captions), hash(features)]
}

/// Bytes must not depend on the machine. A change of these numbers changes the world, and belongs
/// in the changelog.
#[test]
fn known_scenes_have_known_bytes() {
    let world = world(1_000_000);
    assert!(world.scene(4).origin.is_some());
    let known = [0, 4, 990_000, 999_999].map(|index| fingerprint(&world.scene(index)));
    let expected = [
        [0xefba_90c9_7e4a_4077, 0x55ce_212c_cb04_1fbd, 0xf95d_6720_032a_e9a7],
        [0x588f_debd_e3da_8e91, 0xa6e7_6c03_9b2f_5d46, 0x4c9e_fa0e_dff1_fa7f],
        [0xcbc9_8a63_ef86_dc10, 0xbfe8_8f1f_0013_609a, 0x1386_93ef_afb0_0895],
        [0xb657_0f78_c027_6d31, 0x15b3_ba39_df4e_ebae, 0x7664_6652_e9a2_9c52],
    ];
    assert_eq!(known, expected);
}

#[test]
fn every_size_of_world_has_its_splits() {
    for (images, train, dev) in
        [(1, 1, 0), (2, 2, 0), (3, 3, 0), (9, 9, 0), (10, 8, 1), (3000, 2400, 300)]
    {
        let world = world(images);
        let count = |split| (0..images).filter(|&index| world.split(index) == split).count();
        let counts = [Split::Train, Split::Dev, Split::Test].map(count);
        assert_eq!(counts, [train, dev, dev], "{images}");
        assert!((0..images.min(10)).all(|index| !world.scene(index).objects.is_empty()));
    }
    let large = world(1_000_000);
    let edges = [989_999, 990_000, 994_999, 995_000].map(|index| large.split(index));
    assert_eq!(edges, [Split::Train, Split::Dev, Split::Dev, Split::Test]);
}

#[test]
fn settings_that_cannot_be_meant_are_refused() {
    let refused = |settings| World::new(settings).unwrap_err().to_string();
    let none = Settings { images: 0, ..Settings::default() };
    assert_eq!(refused(none), "images: a world needs at least one");
    for rate in [-0.1, 1.5, f64::NAN] {
        let message = refused(Settings { near_duplicates: rate, ..Settings::default() });
        assert!(message.contains("is not a rate from 0 to 1"), "{message}");
    }
}

#[test]
fn seeds_make_different_worlds() {
    let other = World::new(Settings { seed: 1, ..Settings::default() }).unwrap();
    let alike = (0..100).filter(|&i| world(3000).scene(i).objects == other.scene(i).objects);
    assert_eq!(alike.count(), 0);
}

#[test]
fn near_duplicates_occur_at_the_stated_rate_one_attribute_apart() {
    for rate in [0.0, 0.25, 0.9, 1.0] {
        let settings = Settings { images: 4000, near_duplicates: rate, ..Settings::default() };
        let world = World::new(settings).unwrap();
        let mut repeated = 0;
        let mut attributes = HashSet::new();
        for index in 0..4000 {
            let scene = world.scene(index);
            let Some(origin) = scene.origin else { continue };
            repeated += 1;
            attributes.insert(origin.attribute);
            assert!(origin.index < index && world.split(origin.index) == world.split(index));
            let original = world.scene(origin.index);
            assert_eq!(original.origin, None);
            assert_eq!(changes(&original, &scene), [(origin.object, origin.attribute)]);
            assert_ne!(original.render(), scene.render());
        }
        // Three standard deviations, and the three scenes that begin a split.
        let (expected, spread) = (rate * 4000.0, (rate * (1.0 - rate) * 4000.0).sqrt());
        assert!((repeated as f64 - expected).abs() <= 3.0 * spread + 3.0, "{rate}: {repeated}");
        assert!(repeated == 0 || attributes.len() == Attribute::ALL.len());
    }
}

/// All differences between two scenes: attributes of objects.
fn changes(one: &Scene, two: &Scene) -> Vec<(usize, Attribute)> {
    assert_eq!((one.backdrop, one.objects.len()), (two.backdrop, two.objects.len()));
    let mut changes = Vec::new();
    for (i, (a, b)) in one.objects.iter().zip(&two.objects).enumerate() {
        let differs = [
            a.shape != b.shape,
            a.colour != b.colour,
            a.size != b.size,
            a.texture != b.texture,
            a.place != b.place,
        ];
        let differing = Attribute::ALL.into_iter().zip(differs).filter(|(_, differs)| *differs);
        changes.extend(differing.map(|(attribute, _)| (i, attribute)));
    }
    changes
}

#[test]
fn objects_keep_apart_and_inside_the_picture() {
    let world = world(3000);
    for scene in (0..3000).map(|index| world.scene(index)) {
        for (i, a) in scene.objects.iter().enumerate() {
            let (centre, radius) = (a.centre(), a.radius());
            assert!(centre.iter().all(|c| c - radius > 1.0 && c + radius < SIDE as f32 - 1.0));
            for b in &scene.objects[..i] {
                let [dx, dy] = [0, 1].map(|axis| (centre[axis] - b.centre()[axis]).abs());
                // Even the smaller of two is more than half visible.
                let distance = (dx * dx + dy * dy).sqrt();
                assert!(distance > radius.max(b.radius()), "{a:?} {b:?}");
                assert!(a.place.column == b.place.column || dx >= 12.0, "{a:?} {b:?}");
                assert!(a.place.row == b.place.row || dy >= 12.0, "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn attributes_and_combinations_are_long_tailed() {
    let world = world(3000);
    let (mut shapes, mut pairs) = (HashMap::new(), HashMap::new());
    for scene in (0..3000).map(|index| world.scene(index)) {
        for object in scene.objects {
            *shapes.entry(object.shape).or_insert(0) += 1;
            *pairs.entry((object.shape, object.colour)).or_insert(0) += 1;
        }
    }
    assert_eq!(shapes.len(), Shape::ALL.len());
    assert!(shapes[&Shape::Circle] > 8 * shapes[&Shape::House], "{shapes:?}");
    let mut counts: Vec<usize> = pairs.values().copied().collect();
    counts.sort_unstable();
    let all: usize = counts.iter().sum();
    let common: usize = counts.iter().rev().take(10).sum();
    let rare = counts.iter().filter(|&&count| count * 1000 < all).count();
    assert!(common * 10 > all * 3, "ten combinations are {common} of {all} objects");
    assert!(rare > 40, "{rare} combinations are rarer than one in a thousand");
}

#[test]
fn features_are_finite_and_follow_the_pixels_alone() {
    let world = world(3000);
    for scene in (0..40).map(|index| world.scene(index)) {
        let picture = scene.render();
        let features = describe(&picture);
        assert!(features.iter().all(|value| value.is_finite() && value.abs() <= 4.0));
        let decoded = image::load_from_memory(&encode_png(&picture).unwrap()).unwrap().into_rgb8();
        assert_eq!(decoded, picture);
        assert_eq!(describe(&decoded), features);
    }
}

#[test]
fn captions_are_five_different_ones_in_plain_words() {
    let world = world(3000);
    let mut words: HashMap<String, usize> = HashMap::new();
    for scene in (0..3000).map(|index| world.scene(index)) {
        let captions = scene.captions();
        let distinct: HashSet<String> =
            captions.iter().map(|c| c.trim_end_matches('.').to_lowercase()).collect();
        assert_eq!(distinct.len(), 5, "{captions:?}");
        for caption in &captions {
            let plain = caption.strip_suffix('.').unwrap_or(caption);
            assert!(plain.starts_with(|c: char| c.is_ascii_uppercase()), "{caption}");
            for word in plain.split(' ').map(|word| word.strip_suffix(',').unwrap_or(word)) {
                assert!(!word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic()));
                *words.entry(word.to_lowercase()).or_default() += 1;
            }
        }
    }
    assert!((200..400).contains(&words.len()), "{} words", words.len());
    let rare = words.values().filter(|&&count| count < 30).count();
    assert!(rare > 40, "{rare} words are rarer than one caption in 500");
}
