// A provider of log-ins for tests, on this machine: oidc-provider with its own pages, which accept any password.
// node provider.mjs LIBRARY PORT REDIRECT
const [library, port, redirect] = process.argv.slice(2);
const { default: Provider } = await import(library);
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "weir", client_secret: "the client's secret", redirect_uris: [redirect] }],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: id === "ann" ? ["staff", "operators"] : ["guests"] }),
  }),
  pkce: { required: () => true },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
