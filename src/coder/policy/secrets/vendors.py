"""Vendors' published token formats: a table of prefixes, and of formats that are known by their middle.

A row is a kind, its prefixes and, after ` : `, what follows a prefix. Without that it is `w{16,512}`, which
must also look random. Aliases before `{`: n letters and digits, w also _ and -, x hexadecimal, u capitals and
digits, b base64. `^` before a prefix: ordinary words hold it too, so no word may continue before the token or
after it. `~` before the rest: it must look random. If there is a group, only that is the secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from coder.policy.secrets.formats import Span, expression, is_sample, looks_random

_ALIASES = {"n": "A-Za-z0-9", "w": "A-Za-z0-9_-", "x": "A-Fa-f0-9", "u": "A-Z0-9", "b": "A-Za-z0-9+/"}
_UUID = r"x{8}(?:-x{4}){3}-x{12}"

_TABLE = r"""
# code hosting and packages
github ghp_ gho_ ghu_ ghs_ ghr_ : n{36,255}
github github_pat_ : [A-Za-z0-9_]{40,255}
gitlab glpat- gldt- glrt- glptt- glcbt- glimt- glft- glagent- gloas- glsoat- glffct- : [A-Za-z0-9_.-]{20,255}
gitlab GR1348941 : w{20,64}
gitlab _gitlab_session= : (x{32})
atlassian ATATT3 ATCTT3 ATSTT3 ATOTT3 : [A-Za-z0-9_=-]{40,255}
atlassian ATBB : n{28,64}
trello ATTA : x{64}
npm npm_ : n{36,64}
npm _authToken= : (n{16,255}|UUID)
pypi pypi-AgE : w{50,1000}
rubygems rubygems_ : x{48}
crates ^cio : n{32}
nuget ^oy2 : [a-z0-9]{43}
clojars CLOJARS_ : [a-z0-9]{60}
packagist packagist_ack_ packagist_uut_ packagist_oat_ packagist_out_ : n{32,128}
docker dckr_pat_ dckr_oat_
sonar ^squ_ ^sqp_ ^sqa_ : x{40}
sourcegraph sgp_ sgd_ slk_ : (?:(?:x{16}|local)_)?x{40,80}
openvsx ovsxp_ ovsxat_
jfrog AKCp : n{60,80}
jfrog cmVmdGtu : n{50,64}
postman PMAK- PMAT- : n{20,32}-?n{0,40}
circleci CCIPAT_ CCIPRJ_ : [A-Za-z0-9_]{20,128}
buildkite bkua_ bkct_ bkaj_ : n{40,64}
octopus ^API- : u{25,27}
harness ^pat. ^sat. : w{22}\.x{24}\.n{20}
readme rdme_ : [a-z0-9]{64,80}
figma figd_ figo_ figoh_ figu_ figur_
linear lin_api_ lin_oauth_ : n{32,64}
# clouds and hosts
aws AKIA : [A-Z2-7]{16}
aws ASIA ABIA ACCA : (?=[A-Z]{0,15}[2-7])[A-Z2-7]{16}
aws ABSK : [A-Za-z0-9+/=]{109,269}
aws bedrock-api-key- : [A-Za-z0-9+/=]{40,2000}
aws IQoJb3JpZ2lu FwoGZXIvYXdz FQoGZXIvYXdz IQoJb3Jp FwoDYXdz FQoDYXdz : [A-Za-z0-9+/=]{80,4000}
aws X-Amz-Signature= : (x{64})
aws X-Amz-Security-Token= : ([A-Za-z0-9+/=%]{80,4000})
amazon amzn.mws. : UUID
amazon amzn1.oa2-cs.v1. : x{64}
google AIzaSy : w{33}
google ^AIza : (?!Sy)w{35}
google ^AQ.Ab8R : w{30,80}
google GOCSPX- : w{24,32}
google ya29. : w{30,1024}
google ^1//0 : w{30,200}
azure sig= : (?=[A-Za-z0-9/+]{0,60}(?:%|/|\+|=|$))([A-Za-z0-9%/+]{40,120}(?:=|%3[Dd]))
alibaba LTAI : n{16,26}
tencent ^AKID : n{32}
volcengine ^AKLT : [A-Za-z0-9_=-]{40,60}
baidu bce-v3/ALTAK- : n{16,32}/x{40}
yandex ^AQVN : w{35,38}
yandex ^t1. : [A-Za-z0-9_=-]{20,400}\.w{86}={0,2}
yandex ^YCAJ ^YCM : w{32,40}
digitalocean dop_v1_ doo_v1_ dor_v1_ : x{64}
heroku HRKU-AA : w{50,64}
heroku ^HRKU- : UUID
fly fo1_ : w{40,48}
fly fm1a_ fm1r_ fm2_ : [A-Za-z0-9+/=_,]{60,2000}
netlify nfp_ nfc_ nfu_ nfo_ : n{32,64}
vercel vercel_blob_rw_ vcp_ vci_ vca_ vcr_ vck_
render ^rnd_ : n{28,64}
supabase sbp_ : x{40}
supabase sb_secret_
planetscale pscale_tkn_ pscale_oauth_ pscale_pw_ : [A-Za-z0-9_=.-]{30,64}
neon ^napi_ : [a-z0-9]{50,80}
xata ^xau_ : n{30,64}
cloudflare ^v1.0- : x{24}-x{146}
cloudflare cfk_ cfut_ cfat_ : n{36,80}
tailscale tskey- : (?:[a-z]{2,12}-)?n{8,32}(?:-n{16,64})?
openshift sha256~ : ~w{43}
rancher ^token- : [a-z0-9]{5}:[a-z0-9]{50,60}
pulumi ^pul- : x{40}
scalingo ^tk-us- : w{48}
infracost ^ico- : n{32}
dynatrace dt0c01. dt0s01. dt0s02. dt0s16. : u{24}\.u{64}
defined dnkey- : [A-Za-z0-9_=-]{26}-[A-Za-z0-9_=-]{52}
# secret stores
vault hvs. hvb. hvr. : ~w{24,512}
vault ^s. : (?=[A-Za-z]{0,23}\d)n{24}
doppler dp.pt. dp.ct. dp.sa. dp.scim. dp.audit. : n{40,44}
doppler ^dp.st. : (?:[a-z0-9_-]{2,35}\.)?n{40,44}
1password ops_eyJ : [A-Za-z0-9+/=_-]{100,4000}
1password ^A3- : u{6}-(?:u{11}|u{6}-u{5})-u{5}-u{5}-u{5}
bitwarden ^0. : UUID\.n{30}:[A-Za-z0-9+/=]{24}
infisical ^st. : x{24}\.x{32}\.x{32}
age AGE-SECRET-KEY-1 : u{58}
# models
anthropic sk-ant- : [a-z0-9]{3,12}-w{32,255}
langfuse sk-lf- : UUID
openai sk-proj- sk-svcacct- sk-admin- sk-or-v1- : ~w{20,255}
openai sk- : (?=n{0,60}[G-Z])n{40,255}
openai ^sk- : ~(?!ant-|proj-|svcacct-|admin-|or-v1-|lf-)(?:[a-z]{2,10}-)?w{20,255}
huggingface hf_ api_org_ : n{34,64}
nvidia nvapi-
groq gsk_ : n{40,80}
xai xai- : n{60,100}
replicate r8_ : n{37,40}
perplexity pplx- : n{40,64}
cerebras ^csk- : n{40,64}
together tgp_v1_
fireworks ^fw_ : n{20,32}
pinecone pcsk_ : [A-Za-z0-9_]{40,100}
jina ^jina_ : n{40,64}w{0,40}
tavily ^tvly- : w{20,64}
firecrawl ^fc- : x{32}
browserbase bb_live_ bb_test_ : w{20,64}
e2b e2b_ : x{40}
langsmith lsv2_pt_ lsv2_sk_ ls__ : x{32}(?:_x{10})?
wandb wandb_v1_
elevenlabs ^sk_ : x{48}
runpod rpa_ : n{40,64}
kaggle KGAT_ : x{32}
voyage ^pa- : ~w{40,64}
tinybird ^p.eyJ : w{20,200}\.w{20,100}
# data and monitoring
databricks dapi dkea dose : x{32}(?:-\d)?
dbt dbtc_ dbts_ dbtu_
prefect pnu_ pnb_ : n{36}
sentry sntrys_ : [A-Za-z0-9+/=_-]{40,500}
sentry sntryu_ sntryi_ sntrya_ : x{64}
grafana glsa_ : n{32}_x{8}
grafana glc_ : [A-Za-z0-9+/=]{32,400}
grafana eyJrIjoi : [A-Za-z0-9+/=]{60,400}
newrelic NRAK- NRII- NRRA- NRAA- NRIQ- NRSP- NRBR- : w{27,42}
honeycomb hcaik_ hcbik_ hcxik_ hcaak_ : n{50,70}
axiom ^xaat- ^xapt- : UUID
posthog phx_ phs_ : n{40,64}
segment sgp_ : n{64}
amplitude ^amp_ : n{60,80}
statsig ^secret- : n{40,50}
contentful CFPAT- : w{43}
airtable ^pat : n{14}\.x{64}
notion ntn_ : n{40,60}
notion ^secret_ : n{43}
typeform tfp_ : [A-Za-z0-9_.=-]{40,64}
mapbox ^sk.eyJ : w{20,200}\.w{20,40}
adobe ^p8e- : n{32}
adafruit aio_ : n{28}
# messages
slack xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe. xapp- : (?=\S{0,60}\d)[\w%/+.=-]{20,400}
slack hooks.slack.com/services/ : (T[0-9A-Z]{5,15}/B[0-9A-Z]{5,15}/n{16,40})
slack hooks.slack.com/workflows/ hooks.slack.com/triggers/ : (u{5,15}/u{5,24}/(?:n{16,40}/)?n{16,40})
discord discord.com/api/webhooks/ discordapp.com/api/webhooks/ : (\d{17,20}/w{40,80})
teams webhook.office.com/webhookb2/ : (UUID@UUID/IncomingWebhook/x{32}/UUID)
zapier hooks.zapier.com/hooks/catch/ : (\d{4,12}/n{5,12})
sendgrid SG. : w{22}\.w{43}
mailgun ^key- : x{32}
brevo xkeysib- xsmtpsib- : x{64}-n{16}
resend ^re_ : (?=[A-Za-z0-9_]{0,30}\d)n{8}_n{20,30}
mailersend mlsn. : x{60,70}
matrix ^syt_ : [A-Za-z0-9+/=]{4,80}_n{20}_n{6}
meta ^EAA : n{100,400}
instagram ^IGQ : [A-Za-z0-9_-]{60,300}
twitter AAAAAAAAAAAAAAAAAAAAA : [A-Za-z0-9%]{60,120}
firebase :APA91b : w{100,200}
intercom ^dG9rO : [A-Za-z0-9+/=]{50,64}
asana ^1/ ^2/ : \d{12,17}(?:/\d{12,17})?:x{32}
discord ^MT ^Mj ^Mz ^ND ^NT ^Nj ^Nz ^OD ^OT : w{22,26}\.w{6}\.w{27,40}
hubspot ^pat-na1- ^pat-eu1- ^pat-na2- ^pat-ap1- : UUID
totp otpauth:// : [^\s"'<>]{1,200}?[?&]secret=([A-Za-z2-7]{16,128})
# payment and trade
stripe sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ : n{16,255}
stripe whsec_ : [A-Za-z0-9+/=]{24,128}
square sq0atp- sq0csp- sq0idp- : w{22,64}
square ^EAAA : ~w{56,64}
paypal access_token$production$ access_token$sandbox$ : n{13,17}\$x{32}
plaid ^access-sandbox- ^access-development- ^access-production- : UUID
shopify shpat_ shpss_ shpca_ shppa_ shpua_ shptka_ : x{32}
razorpay rzp_live_ rzp_test_ : n{14}
flutterwave FLWSECK_TEST- FLWSECK- : n{12,40}(?:-X)?
paddle pdl_live_apikey_ pdl_sdbx_apikey_ : [A-Za-z0-9_]{40,64}
polar polar_oat_ polar_pat_
easypost EZAK EZTK : n{54}
shippo shippo_live_ shippo_test_ : x{40}
duffel duffel_live_ duffel_test_ : [A-Za-z0-9_=-]{40,44}
frameio fio-u- : [A-Za-z0-9_=-]{60,64}
lob ^live_ ^test_ : x{35}
gocardless ^live_ : ~w{40}
settlemint sm_aat_ sm_pat_ sm_sat_ : n{16}
calcom cal_live_ cal_ : x{32}
trigger tr_dev_ tr_prod_ tr_pat_ : n{20,64}
inngest signkey-prod- signkey-test- signkey-branch- : x{32,80}
"""

# kind, the mark that is searched, and the whole expression around it
_AROUND = (
    ("telegram", ":AA", r"(?<!\d)\d{8,10}:AAw{32,35}(?!w{1})"),
    ("azure", "Q~", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    ("azure", "JQQJ99", r"n{52}JQQJ99n{20,30}"),
    ("azure", "AZDO", r"(?<!n{1})n{76}AZDOn{4}(?!n{1})"),
    ("terraform", ".atlasv1.", r"n{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    ("mailchimp", "-us", r"(?<!n{1})x{32}-us\d{1,2}(?!\d)"),
    ("newrelic", "NRAL", r"(?<!n{1})(?:x{36}|x{32}FFFF)NRAL(?!n{1})"),
    ("maxmind", "_mmk", r"n{6}_n{29}_mmk"),
)


_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_CUT = r"… ?\[|\n\[… "  # truncated by a tool
_LONGEST_CUT = 255
_JWT_REST = r"\.eyJ[A-Za-z0-9_-]{8,8000}+\.[A-Za-z0-9_-]{16,2000}"
_JWT_LONGEST = 8003  # of a header
_NEAR = 96  # characters before a mark that stands in the middle of a token
_ESCAPE = r"(?:\\[nrtbf]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;:]{0,12}[mK])\Z"


class Format(NamedTuple):
    """A vendor's token: what follows its mark or, if the mark is in its middle, all of it."""

    kind: str
    mark: str
    rest: str
    bounded: bool = False
    around: bool = False

    @property
    def random(self) -> bool:
        """Whether what follows the mark must look random."""
        return not self.rest or self.rest.startswith("~")


@cache
def _search(token: Format) -> re.Pattern[str]:
    """Its compiled expression; most formats never occur."""
    rest = (token.rest.removeprefix("~") or "w{16,512}").replace("UUID", _UUID)
    rest = re.sub(r"([nwxub])(?=\{)", lambda alias: f"[{_ALIASES[alias[1]]}]", rest)
    if token.around:
        return re.compile(rest)
    end = "+" * rest.endswith("}") + "(?![A-Za-z0-9])"  # possessive: it cannot end earlier
    return re.compile(re.escape(token.mark) + rest + end * token.bounded)


def _formats() -> Iterator[Format]:
    for line in _TABLE.strip().splitlines():
        head, _, rest = line.partition(" : ")
        kind, *marks = head.split()
        for mark in marks if kind != "#" else ():
            yield Format(kind, mark.removeprefix("^"), rest, mark.startswith("^"))


def _any_mark(marks: list[str]) -> str:
    """An expression for the longest mark at a place, inside other marks too. They are grouped by their first
    characters, which makes it several times faster."""
    groups: dict[str, list[str]] = {}
    for mark in sorted(set(marks), reverse=True):
        groups.setdefault(mark[0], []).append(re.escape(mark[1:]))
    branches = (f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in groups.items())
    return f"(?=({'|'.join(branches)}))"


FORMATS = [*(Format(*row, around=True) for row in _AROUND), *_formats()]
MARKS = _any_mark([token.mark for token in FORMATS])
_CERTAIN = {token.mark: token.kind for token in FORMATS if not token.bounded and not token.around}


def find_tokens(text: str, runs: str, *, sure: bool = True) -> Iterator[Span]:
    """The tokens in a text. `runs`: the part of it that may hold some; not `sure`: also samples."""
    if runs:
        longest = set(expression(MARKS).findall(runs))
        marks = {mark[:length] for mark in longest for length in range(2, len(mark) + 1)}
        for token in FORMATS if marks else ():
            if token.mark in marks and (token.around or _search(token).search(runs)):
                yield from _of_format(text, token, sure=sure)
        if ".eyJ" in runs:
            yield from _signed(text)
    if "…" in text:
        yield from _cut_off(text)


def _of_format(text: str, token: Format, *, sure: bool) -> Iterator[Span]:
    search = _search(token)
    for found in _around(text, token, search) if token.around else search.finditer(text):
        at = found.start()
        if token.bounded and at and text[at - 1] in _WORD and not _after_escape(text, at):
            continue
        value = found[0][len(token.mark) :] if not token.around else found[0]
        if not sure or (not is_sample(value) and (not token.random or looks_random(value, least=10))):
            yield found.start(search.groups), found.end(search.groups), token.kind


def _around(text: str, token: Format, search: re.Pattern[str]) -> Iterator[re.Match[str]]:
    at = text.find(token.mark)
    while at >= 0:
        near = search.finditer(text, max(0, at - _NEAR), at + _NEAR)
        yield from (found for found in near if found.start() <= at < found.end())
        at = text.find(token.mark, at + len(token.mark))


def _signed(text: str) -> Iterator[Span]:
    """JSON web tokens. The search begins at the second part: a text may be full of `eyJ`."""
    at = text.find(".eyJ")
    while at >= 0:
        rest = expression(_JWT_REST).match(text, at)
        if rest is not None:
            before = text[max(0, at - _JWT_LONGEST) : at]
            start = before.find("eyJ", len(before.rstrip(_WORD)))
            if 0 <= start <= len(before) - 11:
                yield at - len(before) + start, rest.end(), "jwt"
        at = text.find(".eyJ", at + 4)


def _cut_off(text: str) -> Iterator[Span]:
    """Beginnings of tokens whose end a tool left out."""
    for cut in expression(_CUT).finditer(text):
        end = cut.start()
        before = text[max(0, end - _LONGEST_CUT) : end]
        word = before[len(before.rstrip(f"{_WORD}.+/=")) :]
        for mark in expression(MARKS).finditer(word):
            rest = word[mark.end(1) :]
            if mark[1] in _CERTAIN and len(rest) >= 6 and any(c.isdigit() for c in rest):
                yield end - len(word) + mark.start(), end, _CERTAIN[mark[1]]
                break


def _after_escape(text: str, at: int) -> bool:
    """Whether the preceding character ends an escape: `\\nsk-…`, `%3Dsk-…`."""
    return expression(_ESCAPE).search(text, max(0, at - 16), at) is not None
