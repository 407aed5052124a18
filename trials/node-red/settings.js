'use strict';
// No requests to the Internet, and no tour for a new visitor.

module.exports = {
  uiHost: '127.0.0.1',
  uiPort: Number(process.env.PORT),
  flowFile: 'flows.json',
  credentialSecret: 'trial',
  apiMaxLength: '20mb',
  editorTheme: { tours: false, projects: { enabled: false } },
  externalModules: { autoInstall: false, palette: { allowInstall: false } },
  telemetry: { enabled: false, updateNotification: false },
};
