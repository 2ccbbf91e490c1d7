//! Limits on the size of pages before they are decoded.

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};

/// Values per page that are always accepted, and values per byte beyond that. Runs of equal values
/// take next to no bytes, so a small page may well hold many.
const VALUES: usize = 1 << 24;
const VALUES_PER_BYTE: usize = 1 << 10;

/// Refuses pages that declare far more values than their bytes can hold. The decoder allocates for
/// the declared values before it reads the bytes, and a damaged number must not allocate gigabytes.
pub(super) struct Plausible(pub(super) Box<dyn PageReader>);

fn check(page: Page) -> Result<Page> {
    let (bytes, values) = (page.buffer().len(), page.num_values() as usize);
    let most = match page {
        Page::DictionaryPage { .. } => bytes,
        _ => bytes.saturating_mul(VALUES_PER_BYTE).saturating_add(VALUES),
    };
    if values > most {
        let what = format!("damaged: a page of {bytes} bytes declares {values} values");
        return Err(ParquetError::General(what));
    }
    Ok(page)
}

impl Iterator for Plausible {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Plausible {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page()?.map(check).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.0.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::basic::Encoding;

    use super::*;

    #[test]
    fn a_page_holds_what_its_bytes_can() {
        let dictionary = |num_values| Page::DictionaryPage {
            buf: vec![0; 8].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert!(check(dictionary(2)).is_ok());
        let what = check(dictionary(1 << 30)).unwrap_err().to_string();
        assert!(what.contains("a page of 8 bytes declares 1073741824 values"), "{what}");
        let data = |num_values| Page::DataPage {
            buf: vec![0; 8].into(),
            num_values,
            encoding: Encoding::PLAIN,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        assert!(check(data(1 << 20)).is_ok());
        assert!(check(data(1 << 30)).is_err());
    }
}
