
// Behind what the installer has written.
$wgServer = WebRequest::detectServer(false);
$wgAssumeProxiesUseDefaultProtocolPorts = false;
$wgArticlePath = '/wiki/$1';
$wgEnableUploads = true;
$wgUploadDirectory = '@www@/images';
$wgUploadPath = '/images';
$wgFileExtensions = ['png', 'txt', 'bin'];
$wgVerifyMimeType = false;
// Jobs run after some requests by chance, and change what the next ones see.
$wgJobRunRate = 0;
$wgSecretKey = str_repeat('0123456789abcdef', 4);
// A session's cookie has to differ from the next one's in nothing but its value.
$wgPasswordAttemptThrottle = false;
$wgRateLimits = [];
