//! minisign keys: verifying signatures and making them.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign::{SecretKey, SecretKeyBox};
use minisign_verify::{PublicKey, Signature};

use crate::store::{Got, Store};
use crate::{Error, manifest};

/// Longest signature, and longest key file.
pub const MAX_BYTES: u64 = 4096;

/// Reads a public key from a minisign file, or from the text itself if this is a line `RW...`.
///
/// # Errors
/// The text is neither.
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

/// Checks that a text is a public key. Unlike [`public_key`], it never reads a file.
///
/// # Errors
/// The text is not a public key.
pub fn check(key: &str) -> Result<(), Error> {
    parse(key).map(drop)
}

fn parse(key: &str) -> Result<PublicKey, Error> {
    PublicKey::from_base64(key)
        .map_err(|_| Error::Settings(format!("{key}: not a public key of minisign")))
}

/// Whether `key` has signed these bytes.
fn has_signed(key: &str, bytes: &[u8], signature: &[u8]) -> Result<bool, Error> {
    let key = parse(key)?;
    let signature = std::str::from_utf8(signature).ok();
    let signature = signature.and_then(|text| Signature::decode(text).ok());
    // Only prehashed signatures are accepted. Others are from old versions of minisign, and never made here.
    Ok(signature.is_some_and(|signature| key.verify(bytes, &signature, false).is_ok()))
}

/// Which of these keys has signed these bytes of the manifest of a list.
///
/// # Errors
/// One of them is not a public key, or the store fails.
pub(crate) fn signer_of<'k>(
    store: &Store,
    list: &str,
    bytes: &[u8],
    keys: impl IntoIterator<Item = &'k String>,
) -> Result<Option<&'k String>, Error> {
    let name = manifest::signature_name(list, bytes);
    let signature = match store.read(&name, MAX_BYTES, None)? {
        Got::File(signature) => signature.bytes,
        Got::Same | Got::Missing => Vec::new(),
    };
    for key in keys {
        if has_signed(key, bytes, &signature)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// A secret key.
pub struct Signer {
    secret: SecretKey,
    /// Its public key, as minisign writes it.
    pub public: String,
}

impl Signer {
    /// Reads a minisign key file. Without a password, the key must have been made with `minisign -G -W`.
    ///
    /// # Errors
    /// The file cannot be read, or the password is wrong.
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

    /// Signs bytes; the signature includes `comment`.
    ///
    /// # Errors
    /// The key cannot sign.
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

/// A secret key without a password, as written by Debian's minisign: without the checksum that the crate expects. If it is
/// damaged, this is noticed when it signs.
fn of_debian(text: &str) -> Option<SecretKey> {
    const NO_PASSWORD: &[u8] = &[0, 0];
    const CHECKSUM_BYTES: usize = 32;
    let bytes = BASE64_STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    let checksum = bytes.last_chunk::<CHECKSUM_BYTES>()?;
    let is_such = bytes.get(2..4) == Some(NO_PASSWORD) && *checksum == [0; CHECKSUM_BYTES];
    let secret = is_such.then(|| SecretKey::from_bytes(&bytes));
    secret?.ok()
}
