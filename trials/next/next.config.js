module.exports = {
  output: 'standalone',
  outputFileTracingRoot: __dirname,
  turbopack: { root: __dirname },
  redirects: () => [{ source: '/old', destination: '/hello/anna?from=old', permanent: true }],
};
