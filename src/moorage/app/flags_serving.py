"""The flags about the secure port: serving, authentication, authorisation.

Owns names, kinds, defaults and upstream's texts, as data. What they mean is in `http.options`.
"""

from moorage.app.flag_values import BOOL, CERTIFICATES, DURATION, INT, INT32S, IP, STRING, STRINGS
from moorage.app.flags import Flag, Section

SECURE_SERVING = Section(
    "Secure serving",
    (
        Flag(
            "bind-address",
            IP,
            "The IP address on which to listen for the --secure-port port. The associated "
            "interface(s) must be reachable by the rest of the cluster, and by CLI/web "
            "clients. If blank or an unspecified address (0.0.0.0 or ::), all interfaces and "
            "IP address families will be used.",
            default="0.0.0.0",
        ),
        Flag(
            "cert-dir",
            STRING,
            "The directory where the TLS certs are located. If --tls-cert-file and "
            "--tls-private-key-file are provided, this flag will be ignored.",
        ),
        Flag(
            "disable-http2-serving", BOOL, "If true, HTTP2 serving will be disabled [default=false]"
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            "The limit that the server gives to clients for the maximum number of streams in "
            "an HTTP/2 connection. Zero means to use golang's default.",
        ),
        Flag(
            "permit-address-sharing",
            BOOL,
            "If true, SO_REUSEADDR will be used when binding the port. This allows binding "
            "to wildcard IPs like 0.0.0.0 and specific IPs in parallel, and it avoids "
            "waiting for the kernel to release sockets in TIME_WAIT state. [default=false]",
        ),
        Flag(
            "permit-port-sharing",
            BOOL,
            "If true, SO_REUSEPORT will be used when binding the port, which allows more "
            "than one instance to bind on the same address and port. [default=false]",
        ),
        Flag(
            "secure-port",
            INT,
            "The port on which to serve HTTPS with authentication and authorization. If 0, "
            "don't serve HTTPS at all.",
            default="10259",
        ),
        Flag(
            "tls-cert-file",
            STRING,
            "File containing the default x509 Certificate for HTTPS. (CA cert, if any, "
            "concatenated after server cert). If HTTPS serving is enabled, and "
            "--tls-cert-file and --tls-private-key-file are not provided, a self-signed "
            "certificate and key are generated for the public address and saved to the "
            "directory specified by --cert-dir.",
        ),
        Flag(
            "tls-cipher-suites",
            STRINGS,
            "Comma-separated list of cipher suites for the server. If omitted, the default "
            "Go cipher suites will be used. \n"
            "Preferred values: TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, "
            "TLS_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305, "
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "
            "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, "
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256. \n"
            "Insecure values: TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256, "
            "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA, TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA, "
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256, TLS_ECDHE_RSA_WITH_RC4_128_SHA, "
            "TLS_RSA_WITH_3DES_EDE_CBC_SHA, TLS_RSA_WITH_AES_128_CBC_SHA, "
            "TLS_RSA_WITH_AES_128_CBC_SHA256, TLS_RSA_WITH_AES_128_GCM_SHA256, "
            "TLS_RSA_WITH_AES_256_CBC_SHA, TLS_RSA_WITH_AES_256_GCM_SHA384, "
            "TLS_RSA_WITH_RC4_128_SHA.",
        ),
        Flag(
            "tls-curve-preferences",
            INT32S,
            "Comma-separated list of numeric Go crypto/tls CurveID values, as the allowed "
            "key exchange mechanisms for the server. The supported values depend on the Go "
            "version used. See https://pkg.go.dev/crypto/tls#CurveID for values supported "
            "for each Go version. The order of the list is ignored, and key exchange "
            "mechanisms are chosen by Go from this list using an internal preference order. "
            "If omitted, the default Go curves will be used.",
        ),
        Flag(
            "tls-min-version",
            STRING,
            "Minimum TLS version supported. Possible values: VersionTLS10, VersionTLS11, "
            "VersionTLS12, VersionTLS13",
        ),
        Flag(
            "tls-private-key-file",
            STRING,
            "File containing the default x509 private key matching --tls-cert-file.",
        ),
        Flag(
            "tls-sni-cert-key",
            CERTIFICATES,
            "A pair of x509 certificate and private key file paths, optionally suffixed with "
            "a list of domain patterns which are fully qualified domain names, possibly with "
            "prefixed wildcard segments. The domain patterns also allow IP addresses, but "
            "IPs should only be used if the apiserver has visibility to the IP address "
            "requested by a client. If no domain patterns are provided, the names of the "
            "certificate are extracted. Non-wildcard matches trump over wildcard matches, "
            "explicit domain patterns trump over extracted names. For multiple "
            "key/certificate pairs, use the --tls-sni-cert-key multiple times. Examples: "
            '"example.crt,example.key" or "foo.crt,foo.key:*.foo.com,foo.com".',
        ),
    ),
)

AUTHENTICATION = Section(
    "Authentication",
    (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "kubeconfig file pointing at the 'core' kubernetes server with enough rights to "
            "create tokenreviews.authentication.k8s.io. This is optional. If empty, all "
            "token requests are considered to be anonymous and no client CA is looked up in "
            "the cluster.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            "If false, the authentication-kubeconfig will be used to lookup missing "
            "authentication configuration from the cluster.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            "The duration to cache responses from the webhook token authenticator.",
            default="10s",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            "If true, failures to look up missing authentication configuration from the "
            "cluster are not considered fatal. Note that this can result in authentication "
            "that treats all requests as anonymous.",
            default="true",
        ),
        Flag(
            "client-ca-file",
            STRING,
            "If set, any request presenting a client certificate signed by one of the "
            "authorities in the client-ca-file is authenticated with an identity "
            "corresponding to the CommonName of the client certificate.",
        ),
        Flag(
            "requestheader-allowed-names",
            STRINGS,
            "List of client certificate common names to allow to provide usernames in "
            "headers specified by --requestheader-username-headers. If empty, any client "
            "certificate validated by the authorities in --requestheader-client-ca-file is "
            "allowed.",
        ),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "Root certificate bundle to use to verify client certificates on incoming "
            "requests before trusting usernames in headers specified by "
            "--requestheader-username-headers. WARNING: generally do not depend on "
            "authorization being already done for incoming requests.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            "List of request header prefixes to inspect. X-Remote-Extra- is suggested.",
            default="x-remote-extra-",
        ),
        Flag(
            "requestheader-group-headers",
            STRINGS,
            "List of request headers to inspect for groups. X-Remote-Group is suggested.",
            default="x-remote-group",
        ),
        Flag(
            "requestheader-uid-headers",
            STRINGS,
            "List of request headers to inspect for UIDs. X-Remote-Uid is suggested. "
            "Requires the RemoteRequestHeaderUID feature to be enabled.",
        ),
        Flag(
            "requestheader-username-headers",
            STRINGS,
            "List of request headers to inspect for usernames. X-Remote-User is common.",
            default="x-remote-user",
        ),
    ),
)

AUTHORIZATION = Section(
    "Authorization",
    (
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            "A list of HTTP paths to skip during authorization, i.e. these are authorized "
            "without contacting the 'core' kubernetes server.",
            default="/healthz,/readyz,/livez",
        ),
        Flag(
            "authorization-kubeconfig",
            STRING,
            "kubeconfig file pointing at the 'core' kubernetes server with enough rights to "
            "create subjectaccessreviews.authorization.k8s.io. This is optional. If empty, "
            "all requests not skipped by authorization are forbidden.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            "The duration to cache 'authorized' responses from the webhook authorizer.",
            default="10s",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            "The duration to cache 'unauthorized' responses from the webhook authorizer.",
            default="10s",
        ),
    ),
)
