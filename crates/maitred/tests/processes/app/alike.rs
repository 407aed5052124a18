//! Directories of layouts that are served as others are, for the tests in [`super::layouts`].

use crate::app::layouts::{Case, MODULE, PLAIN_NODE};

pub(super) const NODE: &[Case] = &[
    Case {
        name: "React Router",
        files: &[
            (
                "package.json",
                "{\"dependencies\":{\"@react-router/serve\":\"7\"},\"scripts\":{\"start\":\"react-router-serve ./build/server/index.js\"}}",
            ),
            (
                "node_modules/.bin/react-router-serve",
                "#!/usr/bin/env node\nrequire(require('node:path').resolve(process.argv[2]));\n",
            ),
            ("build/server/index.js", PLAIN_NODE),
        ],
        writes: &["\"node_modules/.bin/react-router-serve\", \"./build/server/index.js\""],
        asks: &[("/x", "node /x")],
    },
    Case {
        name: "Koa",
        files: &[("package.json", "{\"dependencies\":{\"koa\":\"3\"}}"), ("app.js", PLAIN_NODE)],
        writes: &["\"app.js\""],
        asks: &[("/x", "node /x")],
    },
    Case {
        name: "Hono",
        files: &[
            ("package.json", "{\"type\":\"module\",\"dependencies\":{\"@hono/node-server\":\"1\"}}"),
            ("src/index.js", MODULE),
        ],
        writes: &["\"src/index.js\""],
        asks: &[("/x", "module /x")],
    },
    Case {
        name: "hapi",
        files: &[
            ("package.json", "{\"dependencies\":{\"@hapi/hapi\":\"21\"},\"main\":\"lib/server.js\"}"),
            ("lib/server.js", PLAIN_NODE),
        ],
        writes: &["\"lib/server.js\""],
        asks: &[("/x", "node /x")],
    },
];

pub(super) const FILES: &[Case] = &[
    Case {
        name: "Gatsby",
        files: &[
            ("package.json", "{\"dependencies\":{\"gatsby\":\"5\"}}"),
            ("public/index.html", "the page"),
            ("public/about/index.html", "about"),
        ],
        writes: &["root = \"public\""],
        asks: &[("/", "the page"), ("/about/", "about")],
    },
    Case {
        name: "Docusaurus",
        files: &[
            ("package.json", "{\"dependencies\":{\"@docusaurus/core\":\"3\"}}"),
            ("build/index.html", "the page"),
            ("build/docs/index.html", "documents"),
        ],
        writes: &["root = \"build\""],
        asks: &[("/", "the page"), ("/docs/", "documents")],
    },
    Case {
        name: "Eleventy",
        files: &[
            ("package.json", "{\"devDependencies\":{\"@11ty/eleventy\":\"3\"}}"),
            ("_site/index.html", "the page"),
        ],
        writes: &["root = \"_site\""],
        asks: &[("/", "the page")],
    },
    Case {
        name: "Vue CLI",
        files: &[
            ("package.json", "{\"devDependencies\":{\"@vue/cli-service\":\"5\"}}"),
            ("dist/index.html", "the page"),
            ("dist/js/a.js", "a script"),
        ],
        writes: &["root = \"dist\""],
        asks: &[("/orders/7", "the page"), ("/js/a.js", "a script")],
    },
    Case {
        name: "Nuxt, generated",
        files: &[
            ("package.json", "{\"dependencies\":{\"nuxt\":\"4\"}}"),
            (".output/public/index.html", "the page"),
            (".output/public/200.html", "another"),
        ],
        writes: &["root = \".output/public\""],
        asks: &[("/", "the page"), ("/orders/7", "another")],
    },
    Case {
        name: "Hexo",
        files: &[("_config.yml", ""), ("scaffolds/post.md", ""), ("public/index.html", "the page")],
        writes: &["root = \"public\""],
        asks: &[("/", "the page")],
    },
    Case {
        name: "mdBook",
        files: &[("book.toml", ""), ("book/index.html", "the page"), ("book/a.html", "a chapter")],
        writes: &["root = \"book\""],
        asks: &[("/", "the page"), ("/a", "a chapter")],
    },
    Case {
        name: "Hugo",
        files: &[("config.toml", ""), ("content/a.md", ""), ("public/index.html", "the page")],
        writes: &["root = \"public\""],
        asks: &[("/", "the page")],
    },
];
