//! What is kept from one page to the next, while a report is made again and again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::Error;
use crate::pool_map::PoolMap;

/// Maps by what they show: they take seconds. Pictures by their items: they take files.
#[derive(Default)]
pub(crate) struct Memory {
    maps: Mutex<HashMap<String, PoolMap>>,
    pictures: Mutex<HashMap<String, Option<String>>>,
}

impl Memory {
    /// Returns the map of this name, made now if it is not known.
    pub(crate) fn map(
        &self,
        name: String,
        make: impl FnOnce() -> Result<PoolMap, Error>,
    ) -> Result<PoolMap, Error> {
        let known = |memory: &Self| {
            memory.maps.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
        };
        if let Some(map) = known(self) {
            return Ok(map);
        }
        let map = make()?;
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        maps.insert(name, map.clone());
        Ok(map)
    }

    /// Returns the picture of an item, made now if it is not known.
    pub(crate) fn picture(
        &self,
        id: &str,
        make: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let pictures = || self.pictures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pictures().get(id) {
            return known.clone();
        }
        let picture = make();
        pictures().insert(id.to_owned(), picture.clone());
        picture
    }
}
