//! Small image files that need much memory.

/// A black PNG with 16 bits per channel. 13 bits of the file become 258 bytes of pixels.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(&mut bytes, b"IHDR", &[&size[..], &[16, 2, 0, 0, 0]].concat());
    // A row is one filter byte and six bytes per pixel.
    chunk(&mut bytes, b"IDAT", &zeros(height as usize * (1 + 6 * width as usize)));
    chunk(&mut bytes, b"IEND", &[]);
    bytes
}

/// A black BMP.
pub fn bmp(width: u32, height: u32) -> Vec<u8> {
    const HEADERS: u32 = 54;
    // Rows are padded to multiples of four bytes.
    let bytes = HEADERS + (3 * width).next_multiple_of(4) * height;
    let mut picture = b"BM".to_vec();
    for number in [bytes, 0, HEADERS, 40, width, height, 1 | 24 << 16] {
        picture.extend(number.to_le_bytes());
    }
    picture.resize(bytes as usize, 0);
    picture
}

fn chunk(bytes: &mut Vec<u8>, kind: &[u8; 4], content: &[u8]) {
    bytes.extend((content.len() as u32).to_be_bytes());
    let start = bytes.len();
    bytes.extend(kind);
    bytes.extend(content);
    bytes.extend(crc32(&bytes[start..]).to_be_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

/// Compresses `count` zeros in zlib format, as one block of fixed codes.
fn zeros(count: usize) -> Vec<u8> {
    let mut bits = Bits { bytes: vec![0x78, 0x01], bit: 0 };
    bits.push(0b1, 1); // the last block
    bits.push(0b01, 2); // of fixed codes
    let literal = |bits: &mut Bits| bits.push_code(0x30, 8);
    literal(&mut bits);
    // Repeat the last byte 258 times: the code for length 258, then the code for distance 1.
    for _ in 0..(count - 1) / 258 {
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    for _ in 0..(count - 1) % 258 {
        literal(&mut bits);
    }
    bits.push_code(0, 7); // the end of the block
    let mut bytes = bits.bytes;
    // The Adler-32 checksum of zeros: one sum stays at 1, the other counts the bytes.
    bytes.extend(((count as u32 % 65_521) << 16 | 1).to_be_bytes());
    bytes
}

/// A bit writer for deflate: lowest bit first.
struct Bits {
    bytes: Vec<u8>,
    /// Bits used in the last byte; a multiple of eight means that it is full.
    bit: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for at in 0..count {
            if self.bit.is_multiple_of(8) {
                self.bytes.push(0);
                self.bit = 0;
            }
            let last = self.bytes.last_mut().expect("a byte was pushed");
            *last |= ((value >> at & 1) as u8) << self.bit;
            self.bit += 1;
        }
    }

    /// Huffman codes are written highest bit first.
    fn push_code(&mut self, code: u32, count: u32) {
        for at in (0..count).rev() {
            self.push(code >> at & 1, 1);
        }
    }
}
