//! The format of PyTorch before 1.6: four pickles, the list of storages, and the storages.

use std::collections::HashMap;

use safetensors::Dtype;

use super::pickle::Pickle;
use super::view::bytes_of;

/// The first pickle: a number of ten bytes that identifies this format.
pub(super) const MAGIC: &[u8] =
    &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];

/// Version of the format, never changed since its publication.
const VERSION: i64 = 1001;

/// The bytes of the storages, by name.
pub(super) type Storages<'a> = HashMap<String, &'a [u8]>;

/// Reads a file that starts with [`MAGIC`].
pub(super) fn read(bytes: &[u8]) -> Result<(Pickle, Storages<'_>), String> {
    let mut rest = &bytes[MAGIC.len()..];
    let version = pickle(&mut rest).map_err(|what| format!("its version: {what}"))?;
    if version.root().int() != Some(VERSION) {
        return Err(format!("is not of version {VERSION} of PyTorch's older format"));
    }
    let system = pickle(&mut rest).map_err(|what| format!("its system: {what}"))?;
    let little_endian = system.root().get("little_endian").and_then(|value| value.plain());
    if little_endian != Some(true.into()) {
        return Err("was not written on a little-endian machine".into());
    }
    let object = pickle(&mut rest)?;
    let keys = pickle(&mut rest).map_err(|what| format!("the list of its storages: {what}"))?;
    let storages = storages(rest, &object, &keys)?;
    Ok((object, storages))
}

/// Reads the next pickle of `rest` and advances it.
fn pickle(rest: &mut &[u8]) -> Result<Pickle, String> {
    let (pickle, length) = Pickle::read(rest)?;
    *rest = &rest[length..];
    Ok(pickle)
}

/// The storages in the order of their keys: a count of numbers, and the numbers. Only the object
/// that refers to a storage has its type.
fn storages<'a>(
    mut rest: &'a [u8],
    object: &Pickle,
    keys: &Pickle,
) -> Result<Storages<'a>, String> {
    let dtypes: HashMap<&str, Dtype> =
        object.storages().map(|storage| (&*storage.key, storage.dtype)).collect();
    let mut storages = Storages::new();
    for key in keys.root().items().ok_or("the list of its storages is no list")? {
        let key = key.text().ok_or("a storage whose name is not text")?;
        let dtype = dtypes.get(key).ok_or_else(|| format!("nothing refers to storage {key:?}"))?;
        let bytes = storage(&mut rest, *dtype)
            .ok_or_else(|| format!("the file ends within storage {key:?}"))?;
        if storages.insert(key.to_owned(), bytes).is_some() {
            return Err(format!("storage {key:?} is there twice"));
        }
    }
    Ok(storages)
}

fn storage<'a>(rest: &mut &'a [u8], dtype: Dtype) -> Option<&'a [u8]> {
    let (count, numbers) = rest.split_first_chunk()?;
    let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
    let (bytes, after) = numbers.split_at_checked(count.checked_mul(bytes_of(dtype))?)?;
    *rest = after;
    Some(bytes)
}
