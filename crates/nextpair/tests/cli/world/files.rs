//! Input files, byte by byte.

use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, FloatType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::Vectors;

/// The number type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    F16,
    Bf16,
    F32,
    F64,
}

impl Numbers {
    pub fn encode(self, values: &[f64]) -> Vec<u8> {
        match self {
            Numbers::F16 => values.iter().flat_map(|&v| half(v).to_le_bytes()).collect(),
            Numbers::Bf16 => {
                let upper = |v: f64| ((v as f32).to_bits() >> 16) as u16;
                assert!(values.iter().all(|&v| (v as f32).to_bits() << 16 == 0), "cut off");
                values.iter().flat_map(|&v| upper(v).to_le_bytes()).collect()
            }
            Numbers::F32 => values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
            Numbers::F64 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }

    fn descr(self) -> &'static str {
        match self {
            Numbers::F16 => "<f2",
            Numbers::Bf16 => unreachable!("NumPy has no such type"),
            Numbers::F32 => "<f4",
            Numbers::F64 => "<f8",
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Numbers::F16 => Dtype::F16,
            Numbers::Bf16 => Dtype::BF16,
            Numbers::F32 => Dtype::F32,
            Numbers::F64 => Dtype::F64,
        }
    }
}

/// Converts a number to half precision, which must hold it exactly and not as a subnormal.
fn half(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 63 << 15) as u16;
    if value == 0.0 {
        return sign;
    }
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023 + 15;
    assert!((1..31).contains(&exponent) && bits << 22 == 0, "{value} is not a half");
    sign | (exponent as u16) << 10 | (bits >> 42 & 0x3ff) as u16
}

/// Returns a `.npy` file with any header.
pub fn npy_raw(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), data].concat()
}

pub fn npy(vectors: &Vectors, numbers: Numbers) -> Vec<u8> {
    let shape = format!("({}, {})", vectors.len(), vectors.dim);
    npy_raw(numbers.descr(), false, &shape, &numbers.encode(&vectors.values))
}

/// Returns a `.npy` file of items with `locals` vectors each.
pub fn npy_locals(vectors: &Vectors, locals: usize) -> Vec<u8> {
    let shape = format!("({}, {locals}, {})", vectors.len() / locals, vectors.dim);
    npy_raw("<f4", false, &shape, &Numbers::F32.encode(&vectors.values))
}

pub fn npy_integers(values: &[i64]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    npy_raw("<i8", false, &format!("({},)", values.len()), &data)
}

/// Returns a `.safetensors` file of matrices.
pub fn safetensors(tensors: &[(&str, &Vectors)], numbers: Numbers) -> Vec<u8> {
    let encode = |(name, v): &(&str, &Vectors)| {
        (name.to_string(), numbers.dtype(), vec![v.len(), v.dim], numbers.encode(&v.values))
    };
    safetensors_raw(&tensors.iter().map(encode).collect::<Vec<_>>(), None)
}

/// Returns a `.safetensors` file of any tensors, with `config` in its metadata.
pub fn safetensors_raw(
    tensors: &[(String, Dtype, Vec<usize>, Vec<u8>)],
    config: Option<&serde_json::Value>,
) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    let metadata = config.map(|config| [("config".to_string(), config.to_string())].into());
    ::safetensors::serialize(views, metadata).unwrap()
}

/// Returns a `.parquet` file as Hugging Face writes datasets: images, and captions where there are any.
pub fn parquet_of_images(rows: &[(Vec<u8>, Option<&str>)]) -> Vec<u8> {
    let schema = "message table { optional group image { optional binary bytes; } \
                  optional binary caption (STRING); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = file.next_row_group().unwrap();
    let images: Vec<ByteArray> = rows.iter().map(|(png, _)| png.clone().into()).collect();
    let there = rows.iter().map(|(_, caption)| i16::from(caption.is_some()));
    let captions: Vec<ByteArray> = rows.iter().filter_map(|row| row.1).map(Into::into).collect();
    let columns = [(images, vec![2; rows.len()]), (captions, there.collect())];
    for (values, defined) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&defined), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    bytes
}

/// Returns a `.parquet` file with a column `id`, and `embedding` if there are vectors.
pub fn parquet<T: AsRef<str>>(ids: &[T], vectors: Option<&Vectors>) -> Vec<u8> {
    let lists =
        "required group embedding (LIST) { repeated group list { required float element; } }";
    let lists = if vectors.is_some() { lists } else { "" };
    let schema = format!("message table {{ required binary id (STRING); {lists} }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = file.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        if let parquet::column::writer::ColumnWriter::FloatColumnWriter(_) = column.untyped() {
            let vectors = vectors.unwrap();
            let values: Vec<f32> = vectors.values.iter().map(|&v| v as f32).collect();
            let repeated: Vec<i16> =
                (0..values.len()).map(|i| i16::from(i % vectors.dim != 0)).collect();
            let defined = vec![1; values.len()];
            column
                .typed::<FloatType>()
                .write_batch(&values, Some(&defined), Some(&repeated))
                .unwrap();
        } else {
            let ids: Vec<ByteArray> = ids.iter().map(|id| id.as_ref().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    bytes
}
