import { render } from "preact";
import { App } from "./app/app";
import "./style/tokens.css";
import "./style/base.css";

const page = document.getElementById("page");
if (page) render(<App />, page);
