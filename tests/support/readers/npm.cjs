// Two readers of npm: postal-mime, and the parser of nodemailer. See tests/support/readers.rs.
const { createInterface } = require("node:readline");
const PostalMime = require("postal-mime").default;
const nodemailer = require("nodemailer/lib/addressparser");

const parse = nodemailer.default ?? nodemailer;
const addresses = (found) =>
  found.flatMap((one) => (one?.group ? addresses(one.group) : one?.address ? [one.address] : []));

async function read() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [field, text] = line.split(" ");
    const raw = Buffer.from(text, "base64");
    const mail = await PostalMime.parse(raw);
    const parsed = { From: [mail.from], Sender: [mail.sender], "Reply-To": mail.replyTo ?? [] }[field];
    const header = raw.toString("utf8").split(/\r?\n\r?\n/)[0].replace(/\r?\n(?=[ \t])/g, "");
    const is = (line) => line.toLowerCase().startsWith(field.toLowerCase() + ":");
    const values = header.split("\n").filter(is).map((line) => line.slice(field.length + 1));
    console.log(JSON.stringify(addresses([...parsed, ...values.flatMap((value) => parse(value))])));
  }
}
read();
