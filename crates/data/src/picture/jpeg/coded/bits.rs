//! The bits of coded data up to the next marker, and their Huffman codes.

/// Longest code, in bits, that is looked up in a table.
const SHORT: u32 = 9;

/// Stands for the end of a block: more coefficients than a block has.
const END: u8 = 64;

/// Most coefficients that one code stands for.
const WIDE: u8 = 16;

/// One set of Huffman codes.
pub(super) struct Table {
    /// By the next bits: the length of the code (zero if it is longer) and its symbol.
    short: Box<[(u8, u8); 1 << SHORT]>,
    /// By length: the first 16-bit number that starts with no code of this length or less.
    ends: [u32; 17],
    /// By length: the offset from a code to the position of its symbol.
    places: [i32; 17],
    symbols: Vec<u8>,
}

impl Table {
    /// Builds the table from the number of codes of every length, 1 to 16, and the symbols in
    /// order.
    pub(super) fn new(counts: &[u8; 16], symbols: &[u8]) -> Self {
        let mut table = Table {
            short: Box::new([(0, 0); 1 << SHORT]),
            ends: [0; 17],
            places: [0; 17],
            symbols: symbols.to_vec(),
        };
        let (mut code, mut place) = (0u32, 0usize);
        for (length, &count) in (1u32..).zip(counts) {
            table.places[length as usize] = place as i32 - code as i32;
            for &symbol in symbols.iter().skip(place).take(count.into()) {
                if length <= SHORT {
                    let start = (code << (SHORT - length)) as usize;
                    let same = table.short.iter_mut().skip(start).take(1 << (SHORT - length));
                    same.for_each(|entry| *entry = (length as u8, symbol));
                }
                code += 1;
                place += 1;
            }
            table.ends[length as usize] = code << (16 - length);
            code <<= 1;
        }
        table
    }

    /// The length and symbol of the code that these 16 bits start with.
    #[inline]
    fn find(&self, bits: u32) -> Option<(u8, u8)> {
        match self.short[(bits >> (16 - SHORT)) as usize] {
            (0, _) => self.find_long(bits),
            found => Some(found),
        }
    }

    #[cold]
    fn find_long(&self, bits: u32) -> Option<(u8, u8)> {
        let length = (SHORT as usize + 1..17).find(|&length| bits < self.ends[length])?;
        let place = (bits >> (16 - length)) as i32 + self.places[length];
        let symbol = usize::try_from(place).ok().and_then(|place| self.symbols.get(place));
        symbol.map(|&symbol| (length as u8, symbol))
    }
}

/// A step over coefficients: the bits it consumes (zero if unknown) and the coefficients it covers.
#[derive(Clone, Copy, Default)]
struct Step {
    bits: u8,
    done: u8,
}

/// The codes of coefficients, and precomputed steps over them.
pub(super) struct Steps {
    pub(super) codes: Table,
    /// By the next bits: the step over one code and its value.
    one: Box<[Step; 1 << SHORT]>,
    /// By the next bits: the step over as many codes as they determine. The last of these starts at
    /// most [`WIDE`] coefficients on.
    many: Box<[Step; 1 << SHORT]>,
}

impl Steps {
    pub(super) fn new(codes: Table) -> Self {
        let steps = |most| Box::new(std::array::from_fn(|bits| Self::step(&codes, bits, most)));
        let (one, many) = (steps(0), steps(WIDE));
        Steps { codes, one, many }
    }

    /// Steps over the codes in these bits until more than `most` coefficients are covered.
    fn step(codes: &Table, bits: usize, most: u8) -> Step {
        let mut step = Step::default();
        while step.done <= most && u32::from(step.bits) < SHORT {
            let next = (bits << step.bits) & ((1 << SHORT) - 1);
            let (length, symbol) = codes.short[next];
            if length == 0 || u32::from(step.bits + length) > SHORT {
                break;
            }
            step.bits += length + (symbol & 15);
            step.done += coefficients(symbol);
        }
        step
    }
}

/// The number of coefficients of a symbol: zeros, and the one that ends the run, which is nonzero
/// or the sixteenth zero.
fn coefficients(symbol: u8) -> u8 {
    if symbol & 15 == 0 && symbol < 0xf0 { END } else { (symbol >> 4) + 1 }
}

/// Coded data from some position. It continues with zeros after its end;
/// [`are_short`](Bits::are_short) says whether any were consumed.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, the first in the highest place.
    buffer: u64,
    /// Number of valid bits in the buffer.
    held: u32,
    /// Number of zeros added after the end.
    invented: u64,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Bits { bytes, at, buffer: 0, held: 0, invented: 0 }
    }

    /// Returns whether more bits were consumed than there are.
    pub(super) fn are_short(&self) -> bool {
        self.invented > u64::from(self.held)
    }

    /// A position no later than the marker at which these bits end.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn skip(&mut self, count: u32) {
        self.fill();
        self.drop(count);
    }

    /// Reads the next `count` bits, fewer than 16, as a number.
    pub(super) fn take(&mut self, count: u32) -> u32 {
        self.fill();
        let number = (self.buffer >> 48) as u32 >> (16 - count);
        self.drop(count);
        number
    }

    /// Skips a code and the value bits that follow it.
    pub(super) fn skip_value(&mut self, table: &Table) -> Option<()> {
        self.fill();
        let (length, symbol) = table.find((self.buffer >> 48) as u32)?;
        self.drop(u32::from(length) + u32::from(symbol & 15));
        Some(())
    }

    /// The two halves of the next symbol. The value bits that the second half counts are skipped.
    #[inline]
    pub(super) fn symbol(&mut self, table: &Table) -> Option<(u32, u32)> {
        self.fill();
        let (length, symbol) = table.find((self.buffer >> 48) as u32)?;
        let (zeros, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
        self.drop(u32::from(length) + size);
        Some((zeros, size))
    }

    /// Skips the codes and values of `count` coefficients, or to the end of their block.
    #[inline]
    pub(super) fn skip_block(&mut self, table: &Steps, count: u8) -> Option<()> {
        let mut left = i32::from(count);
        // Local copies stay in registers.
        let (mut buffer, mut held) = (self.buffer, self.held);
        for (steps, last) in [(&table.many, WIDE), (&table.one, 0)] {
            while left > i32::from(last) {
                if held < 32 {
                    (self.buffer, self.held) = (buffer, held);
                    self.fill();
                    (buffer, held) = (self.buffer, self.held);
                }
                let mut step = steps[(buffer >> (64 - SHORT)) as usize];
                if step.bits == 0 {
                    let (length, symbol) = table.codes.find_long((buffer >> 48) as u32)?;
                    step = Step { bits: length + (symbol & 15), done: coefficients(symbol) };
                }
                buffer <<= step.bits;
                held -= u32::from(step.bits);
                left -= i32::from(step.done);
            }
        }
        (self.buffer, self.held) = (buffer, held);
        Some(())
    }

    #[inline]
    fn drop(&mut self, count: u32) {
        self.buffer <<= count;
        self.held -= count;
    }

    /// Makes sure that 32 bits are buffered, more than any code with its value has.
    #[inline]
    fn fill(&mut self) {
        if self.held >= 32 {
            return;
        }
        if let Some(&eight) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) {
            let word = u64::from_be_bytes(eight);
            // No byte is 0xff. Bytes that do not fit completely are read again later.
            if (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080 == 0 {
                self.buffer |= word >> self.held;
                self.at += ((63 - self.held) / 8) as usize;
                self.held |= 56;
                return;
            }
        }
        self.fill_slowly();
    }

    #[cold]
    fn fill_slowly(&mut self) {
        while self.held <= 56 {
            let byte = match (self.bytes.get(self.at), self.bytes.get(self.at + 1)) {
                (Some(0xff), Some(0)) => {
                    self.at += 2;
                    0xff
                }
                (None, _) | (Some(0xff), _) => {
                    self.invented += 8;
                    0
                }
                (Some(&byte), _) => {
                    self.at += 1;
                    byte
                }
            };
            self.buffer |= u64::from(byte) << (56 - self.held);
            self.held += 8;
        }
    }
}
