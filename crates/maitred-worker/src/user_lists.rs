//! Users of files, which all threads share. The users can be replaced while requests are checked.

use std::sync::{Arc, PoisonError, RwLock};

use maitred_config::UsersFile;
use maitred_policy::access::basic::Users;

/// The lists of users, one for each file of the configuration, by its index.
#[derive(Debug)]
pub(super) struct UserLists(Vec<RwLock<Arc<Users>>>);

impl UserLists {
    /// With the users that were there when the configuration was read, or when the master last looked.
    pub(super) fn new(files: &[UsersFile]) -> UserLists {
        UserLists(files.iter().map(|file| RwLock::new(Arc::new(Users::new(&file.users)))).collect())
    }

    /// The users of a file, as they are now; none without one.
    pub(super) fn get(&self, file: Option<usize>) -> Arc<Users> {
        let list = file.and_then(|file| self.0.get(file));
        list.map(|list| Arc::clone(&list.read().unwrap_or_else(PoisonError::into_inner))).unwrap_or_default()
    }

    /// Replaces the users of a file.
    pub(super) fn replace(&self, file: usize, users: &[(String, String)]) {
        let new = Arc::new(Users::new(users));
        if let Some(list) = self.0.get(file) {
            *list.write().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }
}
