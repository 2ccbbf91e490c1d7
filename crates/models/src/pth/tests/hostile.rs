//! Pickles that no training wrote.

use super::super::legacy::MAGIC;
use super::{bytes, edit, parse};

/// A file of the older format around the pickle of an object.
fn legacy(object: &[u8], rest: &[u8]) -> Vec<u8> {
    let system = b"\x80\x02}X\x0d\x00\x00\x00little_endian\x88s.";
    [MAGIC, b"\x80\x02M\xe9\x03.", system, b"\x80\x02", object, rest].concat()
}

fn refusal(object: &[u8]) -> String {
    let what = parse(&legacy(object, b"\x80\x02].")).unwrap_err().to_string();
    assert!(what.len() < 500, "{what}");
    what
}

#[test]
fn nothing_is_executed() {
    for (object, expected) in [
        (&b"cos\nsystem\nU\x02ls\x85R."[..], "asks for os.system,"),
        (b"cposix\nsystem\nU\x02ls\x85R.", "asks for posix.system,"),
        (b"c__builtin__\neval\nU\x011\x85R.", "asks for __builtin__.eval,"),
        (b"(U\x02lsios\nsystem\n.", "asks for os.system,"),
        (b"(cos\nsystem\nU\x02lso.", "asks for os.system,"),
        (b"ctorch\nload\n.", "asks for torch.load,"),
        (b"cargparse\nArgumentParser\n)\x81}b.", "asks for argparse.ArgumentParser,"),
        (b"cnumpy.core.multiarray\nscalar\n.", "asks for numpy.core.multiarray.scalar,"),
        (b"c\x1b[2J\nx\n.", "asks for \\u{1b}[2J.x,"),
        (b"(U\x02lsiargparse\nNamespace\n.", "INST of Namespace"),
        (b"\x8c\x02os\x8c\x06system\x93.", "byte 2 of the pickle: instruction"),
        (b"U\x02os)R.", "a call of something that is not a function"),
        (b"cargparse\nNamespace\nU\x01x\x85\x81.", "Namespace with 1 arguments"),
        (b"ctorch._utils\n_rebuild_tensor\n)R.", "RebuildTensor with 0 arguments"),
        (b"ctorch\nFloatStorage\n)R.", "Storage(F32) with 0 arguments"),
        (b"]}b.", "attributes for something that has none"),
    ] {
        let what = refusal(object);
        assert!(what.contains(expected), "{what}");
    }
    let long = [b"c".as_slice(), &[b'x'; 10_000], b"\ny\n."].concat();
    assert!(refusal(&long).contains("asks for xxx"));
    let edited = edit(&bytes("vse.legacy.pth.tar"), b"argparse\nNamespace", b"subprocess\nrun_now");
    assert!(parse(&edited).unwrap_err().to_string().contains("asks for subprocess.run_now,"));
}

#[test]
fn broken_programs_are_errors() {
    for (object, expected) in [
        (&b""[..], "the file ends here"),
        (b".", "a value is missing"),
        (b"(.", "a value is missing"),
        (b"N(\x85.", "a value is missing"),
        (b"t.", "a mark is missing"),
        (b"h\x05.", "nothing is kept at 5"),
        (b"j\xff\xff\xff\xff.", "nothing is kept at 4294967295"),
        (b"q\x00.", "a value is missing"),
        (b"X\xff\xff\xff\xffabc", "the file ends here"),
        (b"\x8a\xff1.", "the file ends here"),
        (b"N)a.", "not a list"),
        (b"NNNs.", "not a dictionary"),
        (b"}(Nu.", "a key without a value"),
        (b"\x80\x04N.", "protocol 4"),
        (b"NQ.", "not a tuple"),
        (b")Q.", "too short"),
        (b"(NNNNNtQ.", "without names"),
        (b"(U\x07storageNU\x010NNtQ.", "not a storage"),
        (b"(U\x06moduleXctorch\nFloatStorage\nU\x010NK\x01tQ.", "the file ends here"),
        (b"(U\x06modulectorch\nFloatStorage\nU\x010NK\x01tQ.", "names no storage"),
        (b"(U\x07storagectorch\nFloatStorage\nU\x010NJ\xff\xff\xff\xfftQ.", "-1 as a size"),
        (b"(U\x07storagectorch\nFloatStorage\nU\x010NK\x01)tQ.", "without its size"),
        (b"(U\x07storagectorch\nFloatStorage\nU\x010NK\x01NNtQ.", "too long"),
        (b"ccollections\nOrderedDict\nN\x85R.", "not a list"),
        (b"ccollections\nOrderedDict\n]Na\x85R.", "not a list of pairs"),
        (b"ccollections\nOrderedDict\n])a\x85R.", "not a pair"),
        (b"N.", "has no entry 'model'"),
        (b"}U\x05modelNs.", "'model' is no state dict"),
        (b"}U\x05model](NNNNes.", "'model' has 4 parts"),
        (b"}U\x05model}NNss.", "a parameter has no name"),
        (b"}U\x05model}U\x0cembed.weightNss.", "embed.weight is not a tensor"),
    ] {
        let what = refusal(object);
        assert!(what.contains(expected), "{what}");
    }
}

#[test]
fn little_bombs_stay_little() {
    // A list that holds itself.
    assert!(refusal(b"]q\x00h\x00a.").contains("no entry 'model'"));
    // Lists that each hold the previous one twice.
    let doubling = b"](h\x00h\x00eq\x00".repeat(10_000);
    refusal(&[b"]q\x00", &doubling[..], b"."].concat());
    // A hundred thousand nested lists.
    refusal(&[&[b']'; 100_000][..], &[b'a'; 99_999], b"."].concat());
    // Instructions without end.
    assert!(refusal(&[b'N'; 1 << 20]).contains("more than 262144 steps"));
    // A list of pairs that is copied many times.
    let pairs = b"NN\x86".repeat(10_000);
    let copies = b"h\x01h\x00\x85R".repeat(100);
    let object =
        [b"](", &pairs[..], b"eq\x00ccollections\nOrderedDict\nq\x01", &copies, b"."].concat();
    assert!(refusal(&object).contains("more than 262144 steps"));
}

/// A VSE++ model in which all tensors are `tensor`, with these settings; both are given as the
/// instructions that build them.
fn model_of(tensor: &[u8], settings: &[u8], rest: &[u8]) -> Vec<u8> {
    let names = ["fc.weight", "fc.bias", "embed.weight"].map(str::to_owned).into_iter();
    let gru = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(|name| format!("rnn.{name}_l0"));
    let mut object = b"}U\x05model}(".to_vec();
    for name in names.chain(gru) {
        object.push(b'U');
        object.push(name.len() as u8);
        object.extend(name.as_bytes());
        object.extend(tensor);
    }
    object.extend([b"usU\x03opt", settings, b"s."].concat());
    legacy(&object, rest)
}

/// The instructions for a tensor of shape `shape` and stride 1 in a storage of two numbers.
fn tensor(shape: &[u8]) -> Vec<u8> {
    let storage = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x02tQ";
    [b"ctorch._utils\n_rebuild_tensor\n(", &storage[..], b"K\x00", shape, b"K\x01\x85tR"].concat()
}

/// The list of storages and the storage of [`tensor`].
fn one_storage() -> Vec<u8> {
    [&b"\x80\x02]U\x010a.\x02\0\0\0\0\0\0\0"[..], &[0; 8]].concat()
}

#[test]
fn settings_are_plain_and_no_larger_than_the_file() {
    let read = |settings: &[u8]| parse(&model_of(&tensor(b"K\x02\x85"), settings, &one_storage()));
    let namespace = b"cargparse\nNamespace\n)\x81}(U\x01aK\x05U\x01bNU\x01c]U\x01dU\x01\xffNNub";
    let settings = read(namespace).unwrap().settings;
    assert_eq!(
        serde_json::to_string(&settings).unwrap(),
        "{\"a\":5,\"b\":null,\"d\":\"\u{fffd}\"}"
    );
    // One text under many keys.
    let text = [b"X\x00\x10\x00\x00".as_slice(), &[b'x'; 4096], b"q\x05"].concat();
    let entry = [b"U\x01a", &text[..], b"U\x01bh\x05U\x01ch\x05"].concat();
    let what = read(&[b"}(", &entry[..], b"u"].concat()).unwrap_err().to_string();
    assert!(what.contains("its settings are larger than the file"), "{what}");
}

#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    let one = one_storage();
    let checkpoint = parse(&model_of(&tensor(b"K\x02\x85"), b"N", &one)).unwrap();
    assert_eq!(checkpoint.parameters.len(), 7);
    assert!(checkpoint.settings.is_empty() && checkpoint.epoch.is_none());
    for (shape, rest, expected) in [
        (&b"K\x03\x85"[..], &one[..], "shape [3] with strides [1] from 0 leaves its storage of 2"),
        (b"J\xff\xff\xff\x7f\x85", &one, "is larger than the file"),
        (b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85", &one, "is larger than the file"),
        (b"K\x00\x85", &one, "holds no numbers"),
        (b"K\x02K\x02\x86", &one, "shape [2, 2] with strides [1]"),
        (b"(NNNNNNNNNt", &one, "9 axes"),
        (b"K\x02\x85", b"\x80\x02].", "its storage \"0\" is missing"),
        (b"K\x02\x85", b"\x80\x02N.", "is no list"),
        (b"K\x02\x85", b"\x80\x02]U\x019a.", "nothing refers to storage \"9\""),
        (b"K\x02\x85", b"\x80\x02]U\x010a.\x02\0\0\0\0\0\0\0abc", "ends within storage \"0\""),
        (b"K\x02\x85", b"\x80\x02]U\x010a.\xff\xff\xff\xff\xff\xff\xff\x7f", "ends within"),
        (b"K\x02\x85", b"\x80\x02]U\x010a.\x01\0\0\0\0\0\0\0abcd", "4 bytes for 2 numbers"),
    ] {
        let what = parse(&model_of(&tensor(shape), b"N", rest)).unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
}
