//! The bytes of a pickle, taken from the front.

const END: &str = "the file ends here";

#[derive(Default)]
pub(super) struct Bytes<'a> {
    whole: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(whole: &'a [u8]) -> Self {
        Bytes { whole, rest: whole }
    }

    /// Number of bytes taken.
    pub(super) fn place(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(END)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(END)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    /// A name that ends with its line.
    pub(super) fn line(&mut self) -> Result<&'a str, String> {
        let length = self.rest.iter().position(|&byte| byte == b'\n').ok_or(END)?;
        let line = self.take(length)?;
        self.byte()?;
        std::str::from_utf8(line).map_err(|_| "a name that is not UTF-8".into())
    }

    /// An integer after its length; eight bytes are more than enough.
    pub(super) fn integer(&mut self) -> Result<i64, String> {
        let length = self.byte()?;
        let bytes = self.take(length.into())?;
        if bytes.len() > 8 {
            return Err(format!("an integer of {length} bytes"));
        }
        let negative = bytes.last().is_some_and(|&highest| highest >= 0x80);
        let mut whole = [if negative { 0xff } else { 0 }; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_any_length() {
        for (bytes, expected) in [
            (&[0][..], 0),
            (&[1, 5], 5),
            (&[1, 0xff], -1),
            (&[2, 0xff, 0], 255),
            (&[8, 0, 0, 0, 0, 0, 0, 0, 0x80], i64::MIN),
        ] {
            assert_eq!(Bytes::new(bytes).integer(), Ok(expected));
        }
        assert!(Bytes::new(&[9; 10]).integer().is_err());
        assert!(Bytes::new(&[2, 0]).integer().is_err());
    }
}
