"""Under which domains a Node's labels may stand. Apart from what makes the labels, because the settings name
the domains in every agent, and few write labels."""

ACCELSCOPE = "accelscope.io"
FURIOSA_BETA = "beta.furiosa.ai"
FURIOSA = "furiosa.ai"
DOMAINS = (ACCELSCOPE, FURIOSA_BETA, FURIOSA)
