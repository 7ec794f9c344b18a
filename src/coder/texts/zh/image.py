"""Images for models, in Chinese."""

from __future__ import annotations

TEXTS: dict[str, str] = {
    "image.broken": "{name} 被截断或已损坏，不是完整的图片。",
    "image.dropped": "请求中省略了最早的图片：一次请求最多容纳 {megabytes} MB 图片。",
    "image.needs_pillow": "{name} 需要先缩小或转换，模型才能看到；{line} 会装上所需的组件。",
    "image.not_one": "{name} 不是模型能看的图片（PNG、JPEG、GIF、WebP 或 BMP）。",
    "image.not_sent": "{model} 看不了图片，未发送：{names}。",
    "image.older_not_sent": "{model} 看不了图片：不会把本次对话中的图片发给它。",
    "image.refused": "{model} 拒绝了带图片的请求，将去掉图片重试：{reason}",
    "image.too_large": "{name} 超过了 {limit}。",
    "image.too_many": "{name} 未放入：一条消息最多带 {count} 张图片，合计 {megabytes} MB。",
    "image.too_many_pixels": "{name} 有 {width}×{height} 像素，太大，无法处理。",
    "image.unknown": "不清楚 {model} 能否看图片，仍会发送。"
    "如果它看不了，请在 provider.models 中把它的 images 设为 false。",
}
