import { defineConfig } from "vitest/config";

// `npm run dev` needs a running fleet: FLEET=http://localhost:8080 npm run dev
const fleet = process.env.FLEET ?? "http://127.0.0.1:8080";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../src/accelscope/fleet/page/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no inline resources
    modulePreload: { polyfill: false },
    sourcemap: false,
    license: { fileName: "licenses.txt" }, // licences of the bundled packages
  },
  server: { proxy: { "/api": fleet, "/docs": fleet, "/openapi.json": fleet } },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"], environment: "node", css: { include: /tokens\.css/ } },
});
