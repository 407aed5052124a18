//! The account at an authority: made once, kept, and bound to an account elsewhere if the authority asks for that.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use instant_acme::{
    Account, AccountBuilder, AccountCredentials, CertificateIdentifier, Error, ExternalAccountKey, NewAccount,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::client::{Client, Seen};
use super::order::Trouble;
use super::schedule::Window;
use super::store::Store;
use maitred_config::Authority;

/// Longest name of an account's file, without its ending.
const KEY_BYTES_MAX: usize = 200;
/// What the authority says when it has forgotten the account, or never knew it.
const UNKNOWN: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// What is kept of an account.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The authority.
    directory: String,
    /// The addresses that it knows.
    contact: Vec<String>,
    /// The account's name and key.
    credentials: AccountCredentials,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Accounts {
    authority: Arc<Authority>,
    contact: Arc<[String]>,
    store: Arc<Store>,
    /// So that two orders do not make two accounts.
    making: Arc<Mutex<()>>,
}

impl Accounts {
    /// The account at this authority.
    pub(crate) fn new(authority: &Authority, contact: &[String], store: Arc<Store>) -> Accounts {
        let authority = Arc::new(authority.clone());
        Accounts { authority, contact: contact.into(), store, making: Arc::default() }
    }

    /// The account, with connections of its own and the authority's directory as it is now. Made if there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn get(&self, seen: &Seen) -> Result<Account, Trouble> {
        let _making = self.making.lock().await;
        match self
            .store
            .account::<Kept>(&self.key())
            .filter(|kept| kept.directory == self.authority.directory)
        {
            Some(kept) => self.restore(kept, seen).await,
            None => self.make(seen).await,
        }
    }

    /// Puts the account aside if the authority does not know it: the next order makes a new one.
    pub(crate) fn doubt(&self, trouble: &Trouble) {
        if trouble.text.contains(UNKNOWN) {
            tracing::warn!("the authority does not know the account any more; creating a new one");
            if let Err(error) = self.store.put_account_aside(&self.key()) {
                tracing::error!("{error}");
            }
        }
    }

    /// When the authority would have a certificate renewed, and when to send the next query (RFC 9773 section 4).
    ///
    /// # Errors
    /// A text.
    pub(crate) async fn renewal_info(
        &self,
        identifier: Option<CertificateIdentifier<'static>>,
    ) -> Result<(Window, Option<Duration>), String> {
        let identifier = identifier.ok_or("the certificate has no identifier for it")?;
        let account = self.get(&Seen::default()).await.map_err(|trouble| trouble.text)?;
        let (info, again) = account.renewal_info(&identifier).await.map_err(|error| error.to_string())?;
        let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
        let window = info.suggested_window;
        let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
        Ok((Window { start: seconds(start), end: seconds(end) }, Some(again)))
    }

    fn builder(&self, seen: &Seen) -> Result<AccountBuilder, Trouble> {
        let client =
            Client::new(self.authority.ca_file.as_deref(), seen.clone()).map_err(Trouble::refused)?;
        Ok(Account::builder_with_http(Box::new(client)))
    }

    async fn restore(&self, kept: Kept, seen: &Seen) -> Result<Account, Trouble> {
        let trouble = |error: Error| Trouble::of(&error, seen);
        let Kept { contact, credentials, directory } = kept;
        let copy = serde_json::to_value(&credentials).and_then(serde_json::from_value::<AccountCredentials>);
        let copy = copy.map_err(|error| Trouble::refused(format!("the stored account: {error}")))?;
        let account = self.builder(seen)?.from_credentials(copy).await.map_err(trouble)?;
        if contact[..] != self.contact[..] {
            let contacts = self.contacts();
            let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
            let updated = super::order::with_nonce!(account.update_contacts(&contacts)).map_err(trouble);
            updated.inspect_err(|trouble| self.doubt(trouble))?;
            let contact = self.contact.to_vec();
            self.keep(&Kept { directory, contact, credentials })?;
        }
        Ok(account)
    }

    async fn make(&self, seen: &Seen) -> Result<Account, Trouble> {
        let directory = &self.authority.directory;
        let contacts = self.contacts();
        let contact: Vec<&str> = contacts.iter().map(String::as_str).collect();
        // Reading the configuration has checked that `agree = true` stands there.
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let bound = self.external_account()?;
        let made = self.builder(seen)?.create(&new, directory.clone(), bound.as_ref()).await;
        let (account, credentials) = made.map_err(|error| Trouble::of(&error, seen))?;
        tracing::info!(account = account.id(), "there is a new account at the authority");
        self.keep(&Kept { directory: directory.clone(), contact: self.contact.to_vec(), credentials })?;
        Ok(account)
    }

    fn contacts(&self) -> Vec<String> {
        self.contact.iter().map(|address| format!("mailto:{address}")).collect()
    }

    fn keep(&self, kept: &Kept) -> Result<(), Trouble> {
        self.store.keep_account(&self.key(), kept).map_err(|error| Trouble::refused(error.to_string()))
    }

    fn external_account(&self) -> Result<Option<ExternalAccountKey>, Trouble> {
        let Some(external) = &self.authority.external_account else { return Ok(None) };
        let path = external.hmac_key_file.display();
        let text = std::fs::read_to_string(&external.hmac_key_file);
        let text = text.map_err(|error| Trouble::refused(format!("hmac_key_file: {path}: {error}")))?;
        let key = decode(text.trim())
            .ok_or_else(|| Trouble::refused(format!("hmac_key_file: {path}: not base64url")))?;
        Ok(Some(ExternalAccountKey::new(external.key_id.clone(), &key)))
    }

    /// The name of the account's file: the authority, and the account that this one is bound to.
    fn key(&self) -> String {
        let authority = &self.authority;
        let bound = authority.external_account.as_ref().map(|external| external.key_id.as_str());
        file_name(&authority.directory, bound)
    }
}

fn file_name(directory: &str, bound: Option<&str>) -> String {
    let address = directory.strip_prefix("https://").unwrap_or(directory);
    let plain = |char: char| if char.is_ascii_alphanumeric() || char == '.' { char } else { '-' };
    let whole = format!("{address}{}{}", if bound.is_some() { "+" } else { "" }, bound.unwrap_or_default());
    let name: String = whole.chars().map(plain).take(KEY_BYTES_MAX).collect();
    name.trim_matches('.').to_owned()
}

/// base64url, with or without padding: both are handed out.
fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).or_else(|_| BASE64_URL_SAFE.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_file_of_its_own() {
        let name = file_name("https://ca.example:14000/dir", None);
        assert_eq!(name, "ca.example-14000-dir");
        assert_ne!(
            file_name("https://ca.example/dir", Some("k/1")),
            file_name("https://ca.example/dir", None)
        );
        assert!(!file_name("https://../../x", Some("../y")).contains('/'));
        assert!(file_name(&"a".repeat(9000), None).len() <= KEY_BYTES_MAX);
    }

    #[test]
    fn keys_are_read_with_and_without_padding() {
        assert_eq!(decode("_-8"), Some(vec![0xff, 0xef]));
        assert_eq!(decode("_-8="), Some(vec![0xff, 0xef]));
        assert_eq!(decode("no key"), None);
    }
}
