//! Keys of minisign: which signatures are believed, and making them.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign::{SecretKey, SecretKeyBox};
use minisign_verify::{PublicKey, Signature};

use crate::Error;

/// Longest signature, and longest key file.
pub const MAX_BYTES: u64 = 4096;

/// A public key from a file of minisign, or from the command line: the one line `RW...`.
///
/// # Errors
/// When it is neither.
pub fn public_key(written: &str) -> Result<String, Error> {
    let text = if Path::new(written).is_file() {
        fs::read_to_string(written).map_err(Error::io(Path::new(written), "read"))?
    } else {
        written.to_owned()
    };
    let key = text
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default();
    parse(key)?;
    Ok(key.to_owned())
}

/// Refuses what is not a public key. Unlike [`public_key`] it reads no file, whatever the text is.
///
/// # Errors
/// When it is none.
pub fn check(key: &str) -> Result<(), Error> {
    parse(key).map(drop)
}

fn parse(key: &str) -> Result<PublicKey, Error> {
    PublicKey::from_base64(key)
        .map_err(|_| Error::Settings(format!("{key}: not a public key of minisign")))
}

/// Whether `key` has signed these bytes.
///
/// # Errors
/// When the key is none.
pub fn has_signed(key: &str, bytes: &[u8], signature: &[u8]) -> Result<bool, Error> {
    let key = parse(key)?;
    let signature = std::str::from_utf8(signature).ok();
    let signature = signature.and_then(|text| Signature::decode(text).ok());
    // Signatures that are not of a hash are of an old minisign, and never made here.
    Ok(signature.is_some_and(|signature| key.verify(bytes, &signature, false).is_ok()))
}

/// A secret key.
pub struct Signer {
    secret: SecretKey,
    /// Its public key, as minisign writes it.
    pub public: String,
}

impl Signer {
    /// Reads a key file of minisign. Without a password it must be one that was made with `minisign -G -W`.
    ///
    /// # Errors
    /// When it cannot be read, or the password is wrong.
    pub fn open(path: &Path, password: Option<String>) -> Result<Self, Error> {
        let unusable =
            |error: minisign::PError| Error::Settings(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(Error::io(path, "read"))?;
        let key = SecretKeyBox::from_string(&text).map_err(unusable)?;
        let secret = match (password, of_debian(&text)) {
            (Some(password), _) => key.into_secret_key(Some(password)),
            (None, Some(secret)) => Ok(secret),
            (None, None) => key.into_unencrypted_secret_key(),
        };
        let secret = secret.map_err(unusable)?;
        let public = minisign::PublicKey::from_secret_key(&secret).map_err(unusable)?;
        Ok(Self {
            public: public.to_base64(),
            secret,
        })
    }

    /// Signs bytes; `comment` is signed too.
    ///
    /// # Errors
    /// When the key cannot sign.
    pub fn sign(&self, bytes: &[u8], comment: &str) -> Result<String, Error> {
        let signed = minisign::sign(
            None,
            &self.secret,
            Cursor::new(bytes),
            Some(comment),
            Some("signature from blocklist-publish"),
        );
        let signed = signed.map_err(|error| Error::Settings(format!("cannot sign: {error}")))?;
        let signature = signed.into_string();
        if !has_signed(&self.public, bytes, signature.as_bytes())? {
            return Err(Error::Settings(
                "the secret key is damaged: what it signs is not valid".to_owned(),
            ));
        }
        Ok(signature)
    }
}

/// A secret key without a password as Debian's minisign writes it: without the checksum that the crate
/// expects. Whether it is sound shows when it signs.
fn of_debian(text: &str) -> Option<SecretKey> {
    const NO_PASSWORD: &[u8] = &[0, 0];
    const CHECKSUM_BYTES: usize = 32;
    let bytes = BASE64_STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    let checksum = bytes.last_chunk::<CHECKSUM_BYTES>()?;
    let is_such = bytes.get(2..4) == Some(NO_PASSWORD) && *checksum == [0; CHECKSUM_BYTES];
    let secret = is_such.then(|| SecretKey::from_bytes(&bytes));
    secret?.ok()
}
