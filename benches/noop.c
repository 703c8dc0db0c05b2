/* The least that a milter on libmilter does: it agrees to each message and reads no body. benches/ratios compares with it.

   cc -O2 -o noop noop.c -lmilter -lpthread && ./noop unix:/tmp/noop.sock */

#include <libmilter/mfapi.h>

static sfsistat negotiate(SMFICTX *ctx, unsigned long offered, unsigned long steps, unsigned long f2, unsigned long f3,
                          unsigned long *actions, unsigned long *declined, unsigned long *p2, unsigned long *p3)
{
    (void)ctx, (void)offered, (void)f2, (void)f3;
    *actions = *p2 = *p3 = 0;
    *declined = steps & (SMFIP_NOHELO | SMFIP_NORCPT | SMFIP_NODATA | SMFIP_NOBODY | SMFIP_NOEOH | SMFIP_NOUNKNOWN | SMFIP_NR_HDR);
    return SMFIS_CONTINUE;
}

static sfsistat client(SMFICTX *ctx, char *host, _SOCK_ADDR *address)
{
    (void)ctx, (void)host, (void)address;
    return SMFIS_CONTINUE;
}

static sfsistat mail(SMFICTX *ctx, char **arguments)
{
    (void)ctx, (void)arguments;
    return SMFIS_CONTINUE;
}

static sfsistat field(SMFICTX *ctx, char *name, char *value)
{
    (void)ctx, (void)name, (void)value;
    return SMFIS_NOREPLY;
}

static sfsistat end(SMFICTX *ctx)
{
    (void)ctx;
    return SMFIS_ACCEPT;
}

int main(int count, char **arguments)
{
    struct smfiDesc milter = {
        .xxfi_name = "noop", .xxfi_version = SMFI_VERSION, .xxfi_negotiate = negotiate,
        .xxfi_connect = client, .xxfi_envfrom = mail, .xxfi_header = field, .xxfi_eom = end,
    };
    if (count != 2 || smfi_setconn(arguments[1]) == MI_FAILURE || smfi_register(milter) == MI_FAILURE)
        return 2;
    smfi_setbacklog(1024);
    return smfi_main() != MI_SUCCESS;
}
