//! The header of a `.npy` file: a length and a Python dictionary.

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// The header of a `.npy` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The element type in NumPy's notation: `<f4`, or the text of a list for records.
    pub descr: String,
    /// Whether the first index runs fastest.
    pub fortran_order: bool,
    /// The size of every dimension.
    pub shape: Vec<usize>,
    /// Offset of the numbers in bytes.
    pub data_start: usize,
}

/// Parses the header at the start of `bytes`, of format version 1.0, 2.0 or 3.0.
pub fn parse(bytes: &[u8]) -> Result<Header, String> {
    let cut = || format!("the header is cut off: the file has only {} bytes", bytes.len());
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err("not a .npy file: it does not start with \\x93NUMPY".into());
    };
    let (length, data_start) = match *rest {
        [1, 0, a, b, ..] => (usize::from(u16::from_le_bytes([a, b])), 10usize),
        [2 | 3, 0, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 12),
        [major, minor, ..] if !matches!((major, minor), (1..=3, 0)) => {
            return Err(format!("version {major}.{minor}, but only 1.0, 2.0 and 3.0 are read"));
        }
        _ => return Err(cut()),
    };
    let end = data_start.checked_add(length).ok_or_else(cut)?;
    let text = bytes.get(data_start..end).ok_or_else(cut)?;
    let text = String::from_utf8_lossy(text);
    let mut literal = Literal { rest: text.trim_end() };
    let (descr, fortran_order, shape) =
        literal.header().map_err(|what| format!("the header is damaged: {what}"))?;
    Ok(Header { descr, fortran_order, shape, data_start: end })
}

/// A parser for the subset of Python's literals that a header needs.
struct Literal<'a> {
    rest: &'a str,
}

impl Literal<'_> {
    /// Parses `{'descr': ..., 'fortran_order': ..., 'shape': ...}`, in any order, each exactly
    /// once.
    fn header(&mut self) -> Result<(String, bool, Vec<usize>), String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.eat('}') {
            let key = self.string()?;
            self.expect(':')?;
            let repeated = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => return Err(format!("unknown key '{key}'")),
            };
            if repeated {
                return Err(format!("'{key}' occurs twice"));
            }
            if !self.eat(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.rest.is_empty() {
            return Err("there is text after the dictionary".into());
        }
        Ok((
            descr.ok_or("no 'descr'")?,
            fortran_order.ok_or("no 'fortran_order'")?,
            shape.ok_or("no 'shape'")?,
        ))
    }

    fn eat(&mut self, token: char) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        if self.eat(token) {
            return Ok(());
        }
        let found: String = self.rest.trim_start().chars().take(20).collect();
        Err(format!("expected '{token}', found '{found}'"))
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = if self.eat('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect(quote)?;
        }
        let (text, rest) = self.rest.split_once(quote).ok_or("a string does not end")?;
        self.rest = rest;
        Ok(text.to_owned())
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err("'fortran_order' is neither True nor False".into())
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            self.rest = self.rest.trim_start();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            shape.push(digits.parse().map_err(|_| format!("'{digits}' is not a dimension"))?);
            // Python 2 marked long integers.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    /// Parses a type string, or the text of the list that describes a record.
    fn descr(&mut self) -> Result<String, String> {
        if !self.eat('[') {
            return self.string();
        }
        let (mut depth, mut quote) = (1usize, None);
        for (at, c) in self.rest.char_indices() {
            match (quote, c) {
                (Some(open), _) if c == open => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None, '[') => depth += 1,
                (None, ']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let (fields, rest) = self.rest.split_at(at + 1);
                self.rest = rest;
                return Ok(format!("[{fields}"));
            }
        }
        Err("a list does not end".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn every_version_and_spelling() {
        let texts = [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n",
            r#"{"shape":(3L,4L),"descr":"<f4","fortran_order":False}"#,
            "  { 'fortran_order' : False , 'shape' : ( 3 , 4 , ) , 'descr' : '<f4' , } ",
        ];
        for version in [1, 2, 3] {
            for text in texts {
                let bytes = file(version, text);
                let header = parse(&bytes).unwrap();
                assert_eq!((header.descr.as_str(), header.fortran_order), ("<f4", false));
                assert_eq!((header.shape, header.data_start), (vec![3, 4], bytes.len()));
            }
        }
        let fields = "[('a]', '<f4'), ('b', [('c', '|O')])]";
        let record = format!("{{'descr': {fields}, 'fortran_order': True, 'shape': ()}}");
        let header = parse(&file(1, &record)).unwrap();
        assert_eq!(header.descr, fields);
        assert!(header.fortran_order && header.shape.is_empty());
    }

    #[test]
    fn damage_is_explained() {
        let rest = "'fortran_order': False, 'shape': (1, 1)}";
        for (text, expected) in [
            ("", "expected '{', found ''"),
            ("{", "expected '''"),
            ("{'descr': '<f4'}", "no 'fortran_order'"),
            ("{'descr': '<f4', 'fortran_order': False}", "no 'shape'"),
            (&format!("{{{rest}"), "no 'descr'"),
            (&format!("{{'descr': '<f4', 'descr': '<f8', {rest}"), "'descr' occurs twice"),
            (&format!("{{'endian': 'big', {rest}"), "unknown key 'endian'"),
            (&format!("{{'descr': '<f4', {rest} x"), "text after the dictionary"),
            ("{'descr': '<f4, ", "a string does not end"),
            ("{'descr': [('f0', '<u8'), ", "a list does not end"),
            ("{'fortran_order': Maybe", "neither True nor False"),
            ("{'shape': (3, -4)", "'' is not a dimension"),
            ("{'shape': (99999999999999999999999,)", "is not a dimension"),
            ("{'shape': (3 4)", "expected ')', found '4)'"),
        ] {
            let what = parse(&file(1, text)).unwrap_err();
            assert!(what.starts_with("the header is damaged"), "{what}");
            assert!(what.contains(expected), "{what}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(parse(b"PK\x03\x04 and more").unwrap_err().contains("not a .npy file"));
        assert!(parse(b"\x93NUMPY\x04\x00....").unwrap_err().contains("version 4.0"));
        assert!(parse(b"\x93NUMPY\x01\x01....").unwrap_err().contains("version 1.1"));
        let cut = parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err();
        assert!(cut.contains("header is cut off: the file has only 13 bytes"), "{cut}");
    }
}
