// A certified OpenID provider for the tests, and a lie at a time: POST /control says who signs in next, and what of the
// next answers is wrong. The keys are the tests' own, so a forged token can be signed by the true one.
import { createServer } from 'node:http';
import { createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { Provider } from 'oidc-provider';

const { clientId, clientSecret, redirectUris, signedOutUri } = JSON.parse(process.argv[2]);

function made(kid) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' };
}

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://localhost:${server.address().port}`; // another site than 127.0.0.1, as in the world

const keys = { first: made('first'), second: made('second'), strange: made('first') };
const nobody = { account: { sub: 'nobody' }, token: {}, keys: 'first', hidden: [] };
let told = { ...nobody };
let asked = { jwks: 0 };

const provider = new Provider(issuer, {
  clients: [{
    client_id: clientId,
    client_secret: clientSecret,
    redirect_uris: redirectUris,
    post_logout_redirect_uris: [signedOutUri],
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  jwks: { keys: [keys.first] },
  cookies: { keys: ['of the tests'] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ ...told.account, sub: id }) }),
  async loadExistingGrant(ctx) {
    const grant = new ctx.oidc.provider.Grant({
      clientId: ctx.oidc.client.clientId,
      accountId: ctx.oidc.session.accountId,
    });
    grant.addOIDCScope('openid email');
    await grant.save();
    return grant;
  },
});

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** The token again, with what it is told to say, signed as it is told. */
function forged(token) {
  const [head, body] = token.split('.').slice(0, 2).map((text) => JSON.parse(Buffer.from(text, 'base64url')));
  const { claims = {}, without = [], header = {}, signer = told.keys } = told.token;
  Object.assign(body, claims);
  for (const name of without) delete body[name];
  const whole = { ...head, kid: keys[signer]?.kid ?? head.kid, ...header };
  const text = `${part(whole)}.${part(body)}`;
  if (signer === 'none') return `${text}.`;
  if (signer === 'secret') return `${text}.${createHmac('sha256', clientSecret).update(text).digest('base64url')}`;
  if (signer === 'public') {
    const pem = createPublicKey(createPrivateKey({ key: keys.first, format: 'jwk' })).export({ type: 'spki', format: 'pem' });
    return `${text}.${createHmac('sha256', pem).update(text).digest('base64url')}`;
  }
  const key = createPrivateKey({ key: keys[signer], format: 'jwk' });
  return `${text}.${sign('sha256', Buffer.from(text), key).toString('base64url')}`;
}

const open = ({ kty, n, e, kid, use, alg }) => ({ kty, n, e, kid, use, alg });

async function body(ctx) {
  let text = '';
  for await (const piece of ctx.req) text += piece;
  return JSON.parse(text);
}

provider.use(async (ctx, next) => {
  if (ctx.path === '/control') {
    told = { ...nobody, ...await body(ctx) };
    ctx.body = asked;
    return;
  }
  if (ctx.path.startsWith('/interaction/')) {
    const result = told.error ? { error: told.error } : { login: { accountId: told.account.sub, remember: false } };
    await provider.interactionFinished(ctx.req, ctx.res, result);
    ctx.respond = false;
    return;
  }
  await next();
  if (ctx.path === '/jwks') {
    asked.jwks += 1;
    ctx.body = { keys: [open(keys[told.keys])] };
  } else if (ctx.path === '/.well-known/openid-configuration') {
    Object.assign(ctx.body, told.metadata);
  } else if (ctx.path === '/token' && ctx.body?.id_token) {
    if (told.token === null) delete ctx.body.id_token;
    else if (Object.keys(told.token).length || told.keys !== 'first') ctx.body.id_token = forged(ctx.body.id_token);
  }
});

server.on('request', provider.callback());
console.log(issuer);
process.stdin.on('end', () => process.exit(0)).resume(); // whoever has begun it is gone
